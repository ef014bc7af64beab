"""Attempts to get past what journeys promise: as a careless model, as a hostile one, and as a host that is out of order."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.agent import Citation
from agents.citing import misplaced
from agents.running import Opinion
from knowledge.document import parse
from tests.contract.test_journey_tools import TWO, hosting
from tests.writers import Refused

PAGE = parse(
    "trust.md",
    b"""# How levels of trust work

The cap is [20 calls](https://example.com/limits/calls) an hour.

| level | may |
|-------|-----|
| 1     | read |

## Retries wait for 2.5 seconds

Retries wait for 2.5 seconds.

---------------------------
""",
)
SECTION, RETRIES = "How levels of trust work", "Retries wait for 2.5 seconds"


# --- quotes that show nothing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "why"),
    [
        ("[The](https://example.com/made/up/by/a/model)", "does not stand in"),
        ("%%made up by a model%%cap", "does not stand in"),
        ("![The cap](made-up.png)", "does not stand in"),
        ("**********__The__**********", "too short"),
        ("|-------|-----|", "too short"),
        ("---------------------------", "too short"),
        ("How levels of trust work", "only a heading"),
        ("# How levels of trust work", "only a heading"),
        ("## Retries wait for 2.5 seconds", "only a heading"),
    ],
)
def test_a_quote_of_markup_or_a_heading_shows_nothing(quote: str, why: str) -> None:
    """Issue 6, item 5: the quote is really there. One that needs no reading of the page is met by the model's word alone."""
    assert why in misplaced(PAGE, Citation("trust.md", SECTION, quote))


@pytest.mark.parametrize(
    ("section", "quote"),
    [
        (SECTION, "The cap is 20 calls an hour."),
        (SECTION, "[20 calls](https://example.com/limits/calls)"),
        (RETRIES, "Retries wait for 2.5 seconds"),
        (RETRIES, "## Retries wait for 2.5 seconds\n\nRetries wait"),
        (SECTION, "| level | may |\n|-------|-----|\n| 1 | read |"),
    ],
)
def test_a_quote_with_words_of_the_page_stands_whatever_markup_is_around_them(section: str, quote: str) -> None:
    assert misplaced(PAGE, Citation("trust.md", section, quote)) == ""


# --- around the person ------------------------------------------------------------------------------------------------


async def test_no_relayed_word_leads_past_a_checkpoint_that_asks_for_the_persons_own_hand(tmp_path: Path) -> None:
    """Issue 6, item 7: what the person approved once is no word on what was submitted since."""
    async with hosting(tmp_path, own_hand=True) as host:
        journey = await host.start()
        await host.call("journey_submit", journey_id=journey, version=1, work=TWO)
        decide = host.app.services.journeys.decide
        await decide(journey, 2, Opinion("approve", "page"), by="ann")
        await host.call("journey_submit", journey_id=journey, version=3, work={"text": "so", "lacks": "winter"})
        onward = {"phase": "WRITE"}
        with pytest.raises(Refused, match="takes no 'revisit' now"):  # while it is worked on
            await host.call("journey_decide", journey_id=journey, version=4, decision="revisit", changes=onward)
        swapped = {"notes": [{"id": "3", "text": "what nobody approved"}]}
        await host.call("journey_submit", journey_id=journey, version=4, work=swapped)
        for decision, changes in (("approve", {}), ("reject", {}), ("modify", {"notes": []}), ("revisit", onward)):
            with pytest.raises(Refused, match=r"own hand|takes no 'revisit' now"):
                await host.call("journey_decide", journey_id=journey, version=5, decision=decision, changes=changes)
        fork = await host.call("journey_start", agent="", brief="", inputs={"fork_of": journey})
        with pytest.raises(Refused, match="own hand"):
            await host.call("journey_decide", journey_id=fork["journey_id"], version=6, decision="approve")
        there = await decide(journey, 5, Opinion("revisit", "page", "as it was", onward), by="ann")
        assert there.state.phase == "WRITE"


async def test_a_modification_cannot_give_two_items_one_id(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey = await host.start()
        await host.call("journey_submit", journey_id=journey, version=1, work=TWO)
        both = {"notes": [{"id": "1", "text": "this"}, {"id": "1", "text": "or that"}]}
        with pytest.raises(Refused, match="two items of 'notes' have the id 1"):
            await host.call("journey_decide", journey_id=journey, version=2, decision="modify", changes=both)
        assert (await host.call("journey_status", journey_id=journey))["version"] == 2
