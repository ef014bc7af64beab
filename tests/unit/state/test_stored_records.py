"""The texts in which records are stored: those of an older program stay readable, and new records look the same.

The sample is what the program wrote before its codecs were shortened. Lines may be added to it; none may change.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge.history.audit.chain import body_of
from knowledge.history.codec import (
    contradiction,
    contradiction_key,
    contradiction_text,
    packed_intent,
    packed_origins,
    unpacked_intent,
    unpacked_origins,
)
from knowledge.history.ports import Actor, Delivery, HistoryEntry, Intent, RunNote, TrustMove
from knowledge.outbox.codec import mark_text, marks_text, outbox_entry_of
from knowledge.outbox.ports import OutboxEntry
from knowledge.state.retention.cuts import shortened
from knowledge.trust.codec import (
    cut_in,
    line_of,
    line_text,
    proposal_from,
    proposal_line,
    proposal_of,
    proposal_text,
    shortened_proposal,
    verdict_of,
    verdict_text,
)
from knowledge.trust.ports import Proposal
from tests.support.state.decisions import ODD, proposal, yes
from tests.support.state.ledgers import ADA, MINUTE, NOW, change, entry, origin
from tests.support.state.ledgers import contradiction as disagreement

SAMPLE = Path(__file__).parents[2] / "samples" / "stored_records.json"
WARSAW = datetime.fromisoformat("2026-03-01T13:00:00+01:00")
ODDLY = proposal(
    why=ODD.replace("\x00", "").replace("\ud800", ""),
    preview=json.dumps(
        {"sentence": "It changes guides/a.md. " * 40, "run": {"id": "r-1", "call": "3"}, "x": [1.5, None]}
    ),
    journey="j-1",
    origin="p-0",
    revisions={"guides/a.md": "9f2c1d0b7a6e5f43", "guides/ż.md": None},
    created_at=WARSAW,
    expires_at=WARSAW + timedelta(days=7, microseconds=1),
)
LONG = proposal(arguments=json.dumps([{"path": "a.md", "content": "x" * 20_000}]))
DECIDED = yes(note="fine żółć", signed="key-1", advisory=True, at=WARSAW)
ORIGINS = (origin(), origin("two", by="", corroborated_by=("kb:a", "zulip:b"), observed_at=WARSAW), origin("three"))
FULL = entry(
    change("a.md", b"one", b"two", staged=".a.md.tmp", lines_added=3, lines_removed=1),
    change("c.md", None, b"two", moved_from="b.md"),
    actor=Actor("ada@desktop", "kb_merge", "ab" * 32, "r-1/3"),
    at=WARSAW,
    source="plane:PROJ-12",
    confidence=0.7,
    proposal="p-1",
    decision="approved by ann on the page",
    intent="why ż",
    outcome="partial",
    origins={"a.md": ORIGINS},
    contradictions=(disagreement(),),
    trust_record=TrustMove("ada@desktop", 2.5, 3.0, frozen=False),
)
PLAIN = entry(change("a.md", b"one", None))
RUN = RunNote("r-1", "model", goal_achieved=True, iterations=3, tokens_in=10, tokens_out=2, cost_micros=None)
ENTRIES: dict[str, HistoryEntry] = {
    "plain": PLAIN,
    "full": FULL,
    "delivery": replace(PLAIN, changes=(), delivery=Delivery("zulip:design/merge", "e-1"), outcome="sent"),
    "run": replace(PLAIN, changes=(), run=RUN, outcome="done"),
}


def _unpacked(blob: bytes) -> str:
    return zlib.decompress(blob).decode("ascii")


def forms() -> dict[str, str]:
    """Return every record of this file as it is stored; for a blob, its contents."""
    unsettled = disagreement()
    undated = replace(unsettled, new=replace(unsettled.new, observed_at=None, confidence=None, section="ż"))
    short = shortened_proposal(LONG, "removed when it ended")
    return {
        "marks": marks_text({"of_call": "r-1/3", "zulip.topic": "ż \u2028"}),
        "mark": mark_text("zulip.topic"),
        "proposal": proposal_text(proposal()),
        "proposal, odd": proposal_text(ODDLY),
        "proposal, cut": proposal_text(short),
        "line": line_text(proposal()),
        "line, odd": line_text(ODDLY),
        "line, cut": line_text(short, short.cut),
        "verdict": verdict_text(yes()),
        "verdict, full": verdict_text(DECIDED),
        "contradiction": contradiction_text(unsettled),
        "contradiction, undated": contradiction_text(undated),
        "contradiction, key": contradiction_key(undated).hex(),
        "origins": _unpacked(packed_origins(ORIGINS)),
        "origins, none": _unpacked(packed_origins(())),
        "intent": _unpacked(packed_intent(Intent("i-1", NOW, PLAIN))),
        "intent, full": _unpacked(packed_intent(Intent("i-2", WARSAW, FULL))),
        **{f"audit, {name}": body_of(one, 7) for name, one in ENTRIES.items()},
    }


SAMPLES: dict[str, str] = json.loads(SAMPLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_record_is_stored_in_its_old_form(name: str) -> None:
    assert forms()[name] == SAMPLES[name]


def test_every_form_has_a_sample() -> None:
    assert forms().keys() == SAMPLES.keys()


def _row(text: str, line: str | None = None, verdict: str | None = None) -> tuple[Any, ...]:
    return text, "approved", verdict, "{}", None, 1_772_366_400_123_456, "p-2", "one", NOW, line


@pytest.mark.parametrize(("name", "made"), [("proposal", proposal()), ("proposal, odd", ODDLY)])
def test_a_stored_proposal_comes_back(name: str, made: Proposal) -> None:
    assert proposal_from(SAMPLES[name]) == made
    ended = replace(made, state="approved", verdict=DECIDED, result="{}", ended_at=NOW, successor="p-2", runner="one")
    row = _row(SAMPLES[name], SAMPLES["line"], SAMPLES["verdict, full"])
    assert proposal_of(row) == replace(ended, runs_until=NOW)


def test_a_stored_line_comes_back_and_one_that_is_missing_is_made_of_the_proposal() -> None:
    state = ("pending", None, 0, None, None, None)
    assert proposal_line((SAMPLES["line, odd"], None, *state)) == line_of(ODDLY)
    assert proposal_line((None, SAMPLES["proposal, odd"], *state)) == line_of(ODDLY)
    cut = cut_in(SAMPLES["line, cut"])
    assert cut is not None
    assert (cut, cut.size_bytes) == (shortened_proposal(LONG, "removed when it ended").cut, len(proposal_text(LONG)))
    assert cut_in(SAMPLES["line"]) is None
    assert cut_in(None) is None


def test_a_stored_verdict_comes_back() -> None:
    assert verdict_of(SAMPLES["verdict"]) == yes()
    assert verdict_of(SAMPLES["verdict, full"]) == DECIDED
    # A request for changes is one field more; every other decision is stored as before.
    asks = yes(approved=False, note="since when?", changes=True)
    assert verdict_of(verdict_text(asks)) == asks
    assert len(json.loads(verdict_text(asks))) == len(json.loads(verdict_text(yes()))) + 1
    assert verdict_of('["a","b","page","2026-03-01T12:01:00+00:00","h"]').note == ""


def test_stored_contradictions_and_origins_come_back() -> None:
    assert contradiction(SAMPLES["contradiction"]) == disagreement()
    assert contradiction(SAMPLES["contradiction, undated"]).new.observed_at is None
    assert unpacked_origins(zlib.compress(SAMPLES["origins"].encode())) == ORIGINS
    assert unpacked_origins(zlib.compress(SAMPLES["origins, none"].encode())) == ()


def test_a_stored_act_comes_back_also_one_of_an_older_program() -> None:
    assert unpacked_intent(zlib.compress(SAMPLES["intent"].encode())) == Intent("i-1", NOW, PLAIN)
    full = unpacked_intent(zlib.compress(SAMPLES["intent, full"].encode()))
    assert full == Intent("i-2", WARSAW, FULL)
    older = {name: value for name, value in json.loads(SAMPLES["intent"]).items() if name not in ("call", "standing")}
    assert unpacked_intent(zlib.compress(json.dumps(older).encode())) == Intent("i-1", NOW, PLAIN)


def test_a_stored_outbox_entry_comes_back() -> None:
    marks = {"of_call": "r-1/3", "zulip.topic": "ż \u2028"}
    one = OutboxEntry("e-1", ADA.principal, "zulip_send_message", "zulip:a", "d", NOW, marks=marks, fate="done")
    micros = int(NOW.timestamp() * 1_000_000)
    for begun, ended in ((NOW, NOW + MINUTE), (micros, micros + 60_000_000)):
        row = (
            "e-1",
            ADA.principal,
            "zulip_send_message",
            "zulip:a",
            "d",
            begun,
            "",
            "",
            SAMPLES["marks"],
            "done",
            None,
            ended,
        )
        assert outbox_entry_of(row) == replace(one, ended_at=NOW + MINUTE)


def test_json_that_is_too_long_even_when_cut_keeps_the_first_names_and_no_values() -> None:
    many = {f"name {number}": {"text": "x" * 500} for number in range(500)}
    assert shortened(many, 100, "removed") == {f"name {number}": {} for number in range(20)}
