"""A text of invisible characters counts as empty wherever text is required."""

from __future__ import annotations

import pytest

from agents.engine.work.form import blank
from agents.errors import BadStart, NotToDecide
from agents.library.cognitive.agent import as_agent
from agents.spec.yaml.field_path import says_something
from tests.support.agents.agent_harness import leading
from tests.support.agents.cognitive.agents import appraisal

UNSEEN = ["", " \n\t", "\u200b", "\u00a0\u2003", "\ufeff\u200d\u2060", "\u00ad", "\ud800", "\x00"]


@pytest.mark.parametrize("text", UNSEEN)
def test_invisible_text_is_blank(text: str) -> None:
    assert blank(text)
    assert not says_something(text)


@pytest.mark.parametrize("text", ["a", "0", " - ", "蜂", "\U0001f41d", "é\u200b", "\u200fא"])
def test_visible_text_is_not_blank(text: str) -> None:
    assert not blank(text)


@pytest.mark.parametrize("text", ["\u200b", "\u2060\ufeff"])
async def test_neither_brief_nor_discovery_nor_answer_may_be_invisible(text: str) -> None:
    """Otherwise an agent would continue with nothing known, and with an answer that no person gave."""
    agent = as_agent(appraisal())
    with pytest.raises(BadStart, match="the brief is empty"):
        async with leading(agent, brief=text):
            pass
    async with leading(agent, brief="What is this clock worth?", domain=text) as led:
        assert (await led.state()).work["LEARNING_INJECTION"].content["domain"] == "general"
        await led.submit(share=[text])
        assert (await led.state()).phase == "JOHARI_DISCOVERY"
        await led.submit(ask=[{"id": "q1", "question": "Whose is it?", "why": "an heirloom is worth more"}])
        assert (await led.state()).status == "waiting"
        with pytest.raises(NotToDecide, match="the answer to q1 is not text"):
            await led.decide("answer", channel="relayed", changes={"q1": text})
        with pytest.raises(NotToDecide, match="not answered yet: q1"):
            await led.decide("answer", channel="relayed", note=text)
