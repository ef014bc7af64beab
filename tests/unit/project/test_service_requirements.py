"""The locked packages of a service.

Each with hashes, allowed by pyproject.toml, and without a word about their origin.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LOCK = ROOT / ".ci" / "requirements-service.txt"
EXTRAS = ("meilisearch", "postgres", "qdrant", "telemetry")
GUIDE = ROOT / "kb" / "guides" / "run-as-a-service.md"


def locked() -> dict[str, tuple[Requirement, int]]:
    """Return each locked package by its name, and how many hashes it has."""
    entries = re.split(r"^(?=[a-z0-9])", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = [(Requirement(entry.split("\\")[0].strip()), entry.count("--hash=sha256:")) for entry in entries]
    return {canonicalize_name(one.name): (one, hashes) for one, hashes in found}


def asked() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    return [Requirement(line) for line in (*project["dependencies"], *extras)]


def pinned(one: Requirement) -> str:
    (only,) = one.specifier
    assert only.operator == "==", one
    return only.version


def test_every_package_has_one_version_and_its_hashes() -> None:
    for one, hashes in locked().values():
        assert pinned(one)
        assert hashes >= 1, one
        assert one.url is None, one


@pytest.mark.parametrize("wanted", asked(), ids=lambda wanted: wanted.name)
def test_the_locked_version_is_one_that_pyproject_allows(wanted: Requirement) -> None:
    """If this fails: remake the file with the command in its first lines."""
    here = locked()
    one, _ = here[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(pinned(one), prereleases=True)
    for extra in wanted.extras:
        assert any(needed in here for needed in _of_extra(wanted.name, extra)), extra


def test_the_file_was_made_from_the_dependencies_that_pyproject_has_now() -> None:
    """A package that pyproject no longer needs would stay in the image. If this fails: see the test above."""
    project = re.escape("knowledge-forge (pyproject.toml)")
    entries = re.split(r"^(?=[a-z0-9])", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    direct = {
        re.split(r"[=\[ ]", entry)[0] for entry in entries if re.search(rf"# +(via )?{project}$", entry, re.MULTILINE)
    }
    assert direct == {canonicalize_name(wanted.name) for wanted in asked()}


def _of_extra(name: str, extra: str) -> list[str]:
    found = [Requirement(line) for line in requires(name) or ()]
    return [canonicalize_name(one.name) for one in found if one.marker and one.marker.evaluate({"extra": extra})]


def test_dependencies_of_the_packages_are_locked_too() -> None:
    """Otherwise pip, which checks hashes, refuses the whole file."""
    here = locked()
    for name in here:
        try:
            lines = requires(name) or ()
        except PackageNotFoundError:  # of another system or Python
            continue
        for needed in map(Requirement, lines):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in here, f"{name} needs {needed}"


def test_the_file_names_no_place_that_packages_come_from() -> None:
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        assert "://" not in line, line
        assert not re.match(r"\s*(-i|-f|-e|--(extra-)?index-url|--find-links|--trusted-host)\b", line), line


def test_the_guide_says_how_the_file_is_used_and_made() -> None:
    guide, first = GUIDE.read_text(encoding="utf-8"), LOCK.read_text(encoding="utf-8").splitlines()[1]
    assert "pip install --require-hashes -r .ci/requirements-service.txt" in guide
    assert "pip install --no-deps" in guide
    assert first.strip("# ") in guide.replace(" \\\n    ", " ")
