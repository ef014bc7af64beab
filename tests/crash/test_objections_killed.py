"""`kill -9` between an objection of the configured model and the next submission: the record says what was sent back.

The real program over stdio, with the SDK's client and a model on a socket.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.engine.events import FeedbackAdded
from tests.contract.models.test_substance_judge import NOTED, OBJECTION, answers, asked_questions, submitted
from tests.doubles.provider import KEY, Model
from tests.doubles.serving import served
from tests.support.agents.adversary import PAGES
from tests.support.journeys.hosts import Site, over_stdio
from tests.support.knowledge_bases.folders import write
from tests.support.runs.substance import ITEMS, doubting, finding

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@dataclass(frozen=True)
class PatientSite(Site):
    """A site whose servers wait for the model as long as a busy machine needs."""

    def command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "tests.crash.objector", "serve", *more]


@pytest.mark.external
async def test_a_text_that_was_sent_back_passes_on_the_server_after_the_killed_one(tmp_path: Path) -> None:
    model = Model()
    model.will(ITEMS, finding(doubting("auditor")), finding(lambda _: "contradicts"))
    async with served(model) as place:
        asking = {
            "FORGE_MODEL": "openai:some-model",
            "FORGE_MODEL_HELPS": "substance",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{place.address}/v1",
        }
        site = PatientSite(write(tmp_path / "kb", dict(PAGES)), tmp_path / "state", asking)
        async with over_stdio(site) as host:
            at = await submitted(host, await asked_questions(host), answers())
            assert OBJECTION in at["prompt"]
            host.kill()
        async with over_stdio(site) as host:
            at = await submitted(host, at, answers())
        assert at["phase"] == "RISE_ABOVE"
    assert len(model.asked) == 1
    _, log = await site.record(at["journey_id"])
    objection, kept = (logged.event for logged in log if isinstance(logged.event, FeedbackAdded))
    assert objection.text == OBJECTION
    assert kept.text.startswith(NOTED)
    assert objection.about == kept.about
