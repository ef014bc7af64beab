"""The files for containers: they name settings that exist, pinned images and packages, and nothing runs as root."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from mcp_server.app.settings.settings import VARIABLES
from mcp_server.app.settings.sign_in import scopes
from mcp_server.web.sign_in.login_attempt import CALLBACK

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".ci" / "service"
SETTINGS = {variable.name for variable in VARIABLES}
USER = 10001


def pod() -> dict[str, Any]:
    """Return the pod of the Kubernetes example."""
    manifests = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    (found,) = (one["spec"]["template"]["spec"] for one in manifests if one["kind"] == "Deployment")
    return dict(found)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return found


def test_every_setting_exists() -> None:
    for file in (path for path in FOLDER.rglob("*") if path.is_file()):
        named = set(re.findall(r"\bFORGE_[A-Z_]+", file.read_text()))
        assert named <= SETTINGS, file.name


def test_every_image_has_a_version_and_the_base_its_digest() -> None:
    images = [service["image"] for service in compose()["services"].values()]
    images.append(pod()["containers"][0]["image"])
    for image in images:
        assert re.search(r":v?\d[\w.]*$|:local$", image), image
    base = re.search(r"^ARG BASE=(.*)$", (FOLDER / "Containerfile").read_text(), re.MULTILINE)
    assert base is not None
    assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", base[1])


def test_every_package_is_installed_with_its_hash() -> None:
    text = (FOLDER / "Containerfile").read_text()
    installs = re.findall(r"pip install [^&\n]*", text)
    assert installs
    assert all("--require-hashes" in one or one.endswith("--no-deps /wheel/*.whl") for one in installs), installs
    entries = re.split(r"^(?=[a-z0-9])", (FOLDER / "requirements-build.txt").read_text(), flags=re.MULTILINE)[1:]
    assert all(re.match(r"[\w.-]+==\S+ ", entry) and "--hash=sha256:" in entry for entry in entries)
    (wanted,) = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])
    (locked,) = (entry.split()[0].partition("==")[2] for entry in entries if entry.startswith(f"{wanted.name}=="))
    assert wanted.specifier.contains(locked)


def test_nothing_runs_as_root_or_may_become_it() -> None:
    assert f"\nUSER {USER}:{USER}\n" in (FOLDER / "Containerfile").read_text()
    for name in ("forge", "admin"):
        service = compose()["services"][name]
        assert service["user"] == f"{USER}:{USER}"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert (pod()["securityContext"]["runAsNonRoot"], pod()["securityContext"]["runAsUser"]) == (True, USER)
    assert pod()["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_ports_of_the_machine_are_published_on_loopback_only() -> None:
    ports = [port for service in compose()["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_files_copied_into_the_image_are_those_that_the_wheel_needs() -> None:
    text = (FOLDER / "Containerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()}
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "README.md", "LICENSE", "mcp_server", "knowledge", "agents", "kb"} <= copied


def test_the_sign_in_server_knows_the_addresses_scopes_and_the_client_of_the_service() -> None:
    realm = json.loads((FOLDER / "sign-in" / "realm.json").read_text())
    environment = compose()["services"]["forge"]["environment"]
    resource = re.sub(r"^\$\{FORGE_HTTP_URL:-(.*)\}$", r"\1", environment["FORGE_HTTP_URL"])
    guide = (ROOT / "kb" / "guides" / "run-in-containers.md").read_text()
    (scope,) = scopes(re.findall(r"^FORGE_OAUTH_SCOPES=(\S+)$", guide, re.MULTILINE)[0])
    (audience,) = next(one["protocolMappers"] for one in realm["clientScopes"] if one["name"] == scope.scope)
    assert audience["config"]["included.custom.audience"] == resource
    assert scope.scope in realm["defaultOptionalClientScopes"]
    (client,) = realm["clients"]
    origin = resource.removesuffix("/mcp")
    assert client["redirectUris"] == [f"{origin}{CALLBACK}"]
    (issuer,) = re.findall(r"^FORGE_OAUTH_ISSUERS=try=(\S+)$", guide, re.MULTILINE)
    assert (
        f"--hostname={issuer.removesuffix('/realms/' + realm['realm'])}" in compose()["services"]["sign-in"]["command"]
    )
    assert f"FORGE_SITE_CLIENT=try={client['clientId']}" in guide
    for person in realm["users"]:
        assert person["username"] in guide
        assert person["credentials"][0]["value"] in guide
