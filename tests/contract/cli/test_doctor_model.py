"""What the doctor reports about the language model.

Each fault with its remedy, the cost of asking, and never a key or an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mcp_server.app.settings.loader import load
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor import doctor
from mcp_server.cli.doctor.model import model_examined
from mcp_server.cli.doctor.result import DoctorFinding
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Raw, Trouble, said, uses
from tests.doubles.serving import Served, serving
from tests.support.knowledge_bases.folders import write
from tests.support.runs.hosts import at_once

ASKED = "ready"
VENDORS = ("anthropic", "openai", "openai-responses")


@dataclass
class Site:
    """A model's server on loopback, and how a person would name it."""

    folder: Path
    served: Served
    model: Model = field(default_factory=Model)

    def settings(self, vendor: str = "openai", **named: str) -> Settings:
        own = vendor.partition("-")[0].upper()
        address = self.served.address + ("" if own == "ANTHROPIC" else "/v1")
        environ = {"FORGE_MODEL": f"{vendor}:some-model", f"{own}_API_KEY": KEY, f"{own}_BASE_URL": address}
        return load({"kb": self.folder}, {**environ, **named}, cwd=self.folder)

    async def findings(self, vendor: str = "openai", **named: str) -> list[DoctorFinding]:
        found = await model_examined(self.settings(vendor, **named), sleep=at_once)
        assert KEY not in repr(found)
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    model = Model()
    with serving(model) as at:
        yield Site(write(tmp_path / "kb"), at, model)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_working_model_is_reported_with_the_cost_of_asking(site: Site, vendor: str) -> None:
    site.model.will(ASKED, uses("ready"))
    (found,) = await site.findings(vendor, FORGE_MODEL_PRICES="some-*=10/100", FORGE_MODEL_HELPS="routes")
    assert found.health == "ok"
    assert found.found == (
        f"{vendor}:some-model answers (one question: 100 tokens in, 20 out, a cost of 0.003) and calls tools; "
        "it also helps with routes"
    )
    assert len(site.model.asked) == 1


async def test_an_unconfigured_model_is_reported_with_its_settings_and_nothing_is_contacted(site: Site) -> None:
    (found,) = await model_examined(load({"kb": site.folder}, {"OPENAI_API_KEY": KEY}, cwd=site.folder))
    assert (found.health, found.mend.partition(",")[0]) == ("note", "set FORGE_MODEL")
    (found,) = await model_examined(load({"kb": site.folder}, {"FORGE_MODEL": "anthropic:x"}, cwd=site.folder))
    assert found.mend.startswith("set ANTHROPIC_API_KEY")
    assert not site.served.seen


async def test_a_model_that_calls_no_tool_is_reported_because_runs_need_that(site: Site) -> None:
    site.model.will(ASKED, said("The merger is off. I am ready."))
    (found,) = await site.findings()
    assert found.health == "note"
    assert "did not call the tool" in found.found
    assert "merger" not in repr(found)


@pytest.mark.parametrize(
    ("step", "health", "says", "mend"),
    [
        (Trouble(404, "not_found_error", code="model_not_found"), "bad", "404", "FORGE_MODEL"),
        (Trouble(400, "invalid_request_error", f"tools? {KEY}"), "bad", "rejected the request", "FORGE_MODEL"),
        (Trouble(429, "insufficient_quota", code="insufficient_quota"), "bad", "no quota left", "billing"),
        (Trouble(429, "rate_limit_error"), "note", "no more requests for now", ""),
        (Trouble(503, "server_error"), "note", "cannot answer now", ""),
        (Raw(b"<html>", content_type="text/html"), "bad", "cannot be used", ""),
    ],
)
async def test_each_fault_of_a_model_has_its_way_out(
    site: Site, step: Trouble | Raw, health: str, says: str, mend: str
) -> None:
    site.model.will(ASKED, step, step, step)
    (found,) = await site.findings()
    assert found.health == health
    assert says in found.found
    assert mend in found.mend
    assert found.mend
    assert len(site.model.asked) <= 2


async def test_a_rejected_key_is_reported_with_its_setting(site: Site) -> None:
    (site.folder.parent / "key").write_text("sk-wrong-0123456789", encoding="utf-8")
    (found,) = await site.findings(FORGE_MODEL_KEY_FILE=str(site.folder.parent / "key"))
    assert (found.health, found.mend) == ("bad", "check FORGE_MODEL_KEY_FILE")
    (found,) = await site.findings(OPENAI_API_KEY="sk-wrong-0123456789")
    assert (found.health, found.mend) == ("bad", "check OPENAI_API_KEY")
    assert "sk-wrong" not in repr(found)


async def test_an_unreachable_server_is_reported_with_its_address(site: Site) -> None:
    (found,) = await site.findings(OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert found.health == "bad"
    assert "127.0.0.1:9" in found.found
    assert "OPENAI_BASE_URL" in found.mend


async def test_runs_left_out_of_the_toolsets_are_reported(site: Site) -> None:
    site.model.will(ASKED, uses("ready"))
    _, left_out = await site.findings(FORGE_TOOLSETS="knowledge")
    assert left_out.mend == "add runs to FORGE_TOOLSETS, or unset it"


async def test_the_doctor_reports_the_model_and_a_key_file_that_others_can_read(site: Site) -> None:
    site.model.will(ASKED, uses("ready"))
    file = site.folder.parent / "key"
    file.write_text(f"{KEY}\n", encoding="utf-8")
    file.chmod(0o644)
    settings = site.settings(FORGE_MODEL_KEY_FILE=str(file), FORGE_STATE_DIR=str(site.folder.parent / "state"))
    open_to_others, well = [one for one in await doctor.examine(settings) if one.what == "model"]
    assert well.health == "ok"
    assert open_to_others.mend == f"chmod 600 {file}"
