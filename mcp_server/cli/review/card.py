"""Lay out a proposal for a terminal: everything that a decision depends on, with every character visible. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowledge.errors import size_in_words
from knowledge.merge.model import Contradiction
from knowledge.trust.ports import Proposal, ProposalLine, State
from mcp_server.approvals.approvers import Requirement
from mcp_server.approvals.views.present import Present
from mcp_server.cli.terminal.escape import visible
from mcp_server.presenters.proposal import (
    Asker,
    ChangedFile,
    ProposalSummary,
    ending,
    given,
    outcome_now,
    parsed,
    sentence_of,
    since_proposed,
)

MOST_LINES, LONGEST_LINE = 40, 1_000
"""The longest block in lines, and the longest line in characters, that is shown unfolded before the person asks for everything."""
_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_VERDICT_STYLES = {
    "update": "green",
    "integrate": "green",
    "flag": "yellow",
    "conflict": "red",
    "retain": "yellow",
    "ask": "yellow",
}
_COUNTED: Mapping[State, str] = {
    "executed": "carried out",
    "rejected": "rejected",
    "failed": "failed",
    "pending": "waiting",
    "withdrawn": "withdrawn",
    "superseded": "replaced",
    "expired": "expired",
}


@dataclass(frozen=True, slots=True)
class CardLine:
    """One line, already escaped; `style` is a style of rich."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class CardBlock:
    """Lines under a heading."""

    title: str
    lines: tuple[CardLine, ...]


def listed(proposal: Proposal | ProposalLine) -> str:
    """Return the proposal as one line: its tool, and what it would do."""
    return visible(f"{proposal.tool}: {sentence_of(proposal)}")


def card(summary: ProposalSummary) -> tuple[CardBlock, ...]:
    """Return everything about the proposal, uncut."""
    proposal, run = summary.proposal, summary.run
    places = [
        CardLine(f"press t to trust {visible(place)}: text from there then needs no approval", "dim")
        for place in summary.places
    ]
    goal = [
        CardLine(visible(f"goal: {run.get('goal') or 'unknown here'}"), "bold"),
        CardLine(visible(f"to see its steps: knowledge-forge runs show {run.get('id')}")),
    ]
    blocks = [
        CardBlock("What it does", (CardLine(visible(sentence_of(proposal)), "bold"), *_lines(summary.note))),
        CardBlock("Changed since this was proposed", _since(summary)),
        CardBlock("Why this needs approval", (*_lines(proposal.why), *places)),
        CardBlock("Who asks", _who(summary)),
        CardBlock("Run", tuple(goal) if run else ()),
        CardBlock("Both sides", tuple(line for one in summary.contradictions for line in _sides(one))),
        CardBlock("Verdicts", tuple(line for one in summary.blocks for line in _verdict(one))),
        CardBlock("Conflicts", tuple(line for one in summary.conflicts for line in _conflict(one))),
        *map(_file, summary.files),
        *(replace(block, title=f"As proposed: {block.title}") for block in map(_file, summary.as_proposed)),
        CardBlock(
            "Expected result", tuple(line for name, value in summary.rest.items() for line in _named(name, value))
        ),
        CardBlock("Exact call", tuple(_calls(summary))),
        CardBlock("Deciding", _deciding(summary)),
    ]
    return tuple(block for block in blocks if block.lines)


def _since(summary: ProposalSummary) -> tuple[CardLine, ...]:
    present = summary.present
    if present is None:
        return ()
    changed = [CardLine(visible(line)) for line in since_proposed(present)]
    return (*changed, CardLine(visible(outcome_now(present)), "" if present.outcome == "same" else "yellow"))


def folded(blocks: Sequence[CardBlock]) -> tuple[tuple[CardBlock, ...], bool]:
    """Return the blocks with long ones cut and the rest counted, and whether anything was cut."""
    shorter = tuple(CardBlock(block.title, _fold(block.lines)) for block in blocks)
    return shorter, shorter != tuple(blocks)


def _fold(lines: tuple[CardLine, ...]) -> tuple[CardLine, ...]:
    kept = [_short(line) for line in lines[:MOST_LINES]]
    more = len(lines) - MOST_LINES
    return (*kept, CardLine(f"... {more} more lines (o opens everything)", "reverse")) if more > 0 else tuple(kept)


def _short(line: CardLine) -> CardLine:
    more = len(line.text) - LONGEST_LINE
    if more <= 0:
        return line
    return CardLine(f"{line.text[:LONGEST_LINE]} ... {more} more characters (o opens everything)", line.style)


def fields(proposal: Proposal, askers: Sequence[Asker], present: Present | None = None) -> dict[str, object]:
    """Return the proposal for a program: as recorded, with the hash that a decision must name, and everyone who asks for it.

    `present` is its present state, if a page has changed since.
    """
    verdict = proposal.verdict
    return {
        "id": proposal.id,
        "kind": proposal.kind,
        "tool": proposal.tool,
        "state": proposal.state,
        "principal": proposal.principal,
        "askers": [
            {
                "principal": one.principal,
                "asked_at": one.asked_at.isoformat(timespec="seconds") if one.asked_at else None,
                "score": round(one.score, 2),
                "level": one.level,
                "frozen": one.frozen,
            }
            for one in askers
        ],
        "level_needed": proposal.level_needed,
        "level_held": proposal.level_held,
        "why": proposal.why,
        "arguments": parsed(proposal.arguments),
        "preview": parsed(proposal.preview),
        "present": present and _present_fields(present),
        "hash": proposal.hash,
        "created_at": proposal.created_at.isoformat(timespec="seconds"),
        "expires_at": proposal.expires_at.isoformat(timespec="seconds"),
        "decision": verdict
        and {
            "approved": verdict.approved,
            "by": verdict.by,
            "channel": verdict.channel,
            "note": verdict.note,
            "at": verdict.at.isoformat(timespec="seconds"),
            "signed": bool(verdict.signed),
            "advisory": verdict.advisory,
        },
        "result": parsed(proposal.result) if proposal.result else None,
        "error": proposal.error,
        "successor": proposal.successor,
        "shortened_from_bytes": proposal.cut.size_bytes if proposal.cut else None,
    }


def _present_fields(present: Present) -> dict[str, object]:
    changed = [
        {
            "path": page.path,
            "revision": page.revision,
            "changes": [
                {"by": one.by, "tool": one.tool, "at": one.at, "revision": one.revision} for one in page.changes
            ],
        }
        for page in present.changed
    ]
    preview = parsed(present.preview) if present.preview else None
    return {"changed": changed, "outcome": present.outcome, "why": present.why, "preview": preview}


def _who(summary: ProposalSummary) -> tuple[CardLine, ...]:
    asker, proposal = summary.asker, summary.proposal
    before = _before(asker)
    if proposal.kind == "admin":  # a person asks, not a host, so there is no level
        user, _, place = asker.principal.rpartition("@")
        return CardLine(f"{visible(user)}, by the {visible(place)}", "bold"), CardLine(before)
    levels = f"needed level {proposal.level_needed}, had {proposal.level_held}; "
    if not summary.also:
        return CardLine(_trusted(asker), "bold"), CardLine(levels + before)
    lines = [
        CardLine(f"{len(summary.askers)} hosts ask for the same change"),
        *_asked(asker),
        CardLine(levels + before),
    ]
    for one in summary.also:
        lines += [*_asked(one), CardLine(visible(one.sentence)), CardLine(_before(one))]
    return tuple(lines)


def _asked(asker: Asker) -> Iterable[CardLine]:
    when = f", asked {asker.asked_at:%Y-%m-%d %H:%M} UTC" if asker.asked_at else ""
    yield CardLine(f"{_trusted(asker)}{when}", "bold")


def _trusted(asker: Asker) -> str:
    holds = "frozen until a person unfreezes it" if asker.frozen else f"score {asker.score:.2f}, level {asker.level}"
    return f"{visible(asker.principal)}, {holds}"


def _before(asker: Asker) -> str:
    past = ", ".join(f"{asker.counts[state]} {word}" for state, word in _COUNTED.items() if asker.counts.get(state))
    return f"{past} before" if past else "no earlier proposals"


def _sides(contradiction: Contradiction) -> Iterable[CardLine]:
    yield CardLine(f"{visible(contradiction.kind)}: {visible(contradiction.reason)}", "bold")
    other = "New text" if contradiction.new.revision is None else "Also in the knowledge base"
    sides = (("In the knowledge base", contradiction.existing, "red"), (other, contradiction.new, "green"))
    for name, side, style in sides:
        seen = f", observed {side.observed_at:%Y-%m-%d}" if side.observed_at else ""
        confidence = "unknown" if side.confidence is None else f"{side.confidence:.2f}"
        weighed = f"confidence {confidence}, authority {side.authority:.2f}"
        yield CardLine(f"{name}: {visible(side.source)} in {visible(side.path)}, {weighed}{seen}", style)
        yield from _lines(side.text, indent="  ", style=style)


def _verdict(block: Mapping[str, Any]) -> Iterable[CardLine]:
    word, section = str(block.get("verdict", "")), str(block.get("section", ""))
    yield CardLine(f"{visible(word)}  {visible(section)}", _VERDICT_STYLES.get(word, ""))
    yield from _lines(str(block.get("reason", "")), indent="  ")
    for name in ("new", "existing"):
        side = block.get(name)
        if isinstance(side, dict):
            parts = [part for part in ("confidence", "recency", "authority", "corroboration") if part in side]
            values = [f"{side[part]:.2f}" if isinstance(side[part], float) else str(side[part]) for part in parts]
            numbers = ", ".join(f"{part} {value}" for part, value in zip(parts, values, strict=True))
            yield CardLine(f"  {name:<8}  {visible(numbers)}", "dim")


def _conflict(conflict: Mapping[str, Any]) -> Iterable[CardLine]:
    yield CardLine(visible(str(conflict.get("section", ""))), "bold")
    for name, style in (("base", "dim"), ("ours", "red"), ("theirs", "green")):
        yield CardLine(f"{name}:", style)
        yield from _lines(str(conflict.get(name, "")), indent="  ", style=style)


def _file(file: ChangedFile) -> CardBlock:
    moved = f", from {file.moved_from}" if file.moved_from else ""
    diff = tuple(
        CardLine(visible(line), next((style for mark, style in _DIFF_STYLES if line.startswith(mark)), ""))
        for line in file.diff.split("\n")
        if line
    )
    same = CardLine("no text" if file.sent else "text unchanged", "dim")
    return CardBlock(visible(f"{file.path} {file.effect}{moved}"), diff or (same,))


def _calls(summary: ProposalSummary) -> Iterable[CardLine]:
    for number, arguments in enumerate(summary.calls, 1):
        count = f"  ({number} of {len(summary.calls)}, one act)" if len(summary.calls) > 1 else ""
        yield CardLine(f"{visible(summary.proposal.tool)}{count}", "bold")
        for name, value in given(arguments).items():
            yield from _named(name, value)


def _named(name: str, value: object) -> Iterable[CardLine]:
    """Yield a value under its name: text of several lines behind a bar, everything else as JSON."""
    if isinstance(value, str) and "\n" in value:
        yield CardLine(f"  {visible(name)}: {value.count(chr(10)) + 1} lines")
        yield from _lines(value, indent="  | ")
    else:
        first, *rest = json.dumps(value, ensure_ascii=False, indent=2).split("\n")
        yield CardLine(f"  {visible(name)}: {visible(first)}")
        for line in rest:
            yield CardLine(f"  {visible(line)}")


def _deciding(summary: ProposalSummary) -> tuple[CardLine, ...]:
    proposal = summary.proposal
    signed = CardLine("needs a passkey, on the review page (knowledge-forge review --web)", "yellow")
    says: Mapping[Requirement, CardLine] = {
        "word": CardLine("no passkey needed"),
        "advisory": CardLine("not protected by a passkey: any program of your account could approve here", "yellow"),
        "passkey": signed,
        "elsewhere": signed,
    }
    state = [] if proposal.state == "pending" else [CardLine(visible(ending(proposal)), "bold")]
    if proposal.cut:
        size = size_in_words(proposal.cut.size_bytes)
        closed = f"this proposal is closed, so only the beginning of its long texts is kept; the original had {size}"
        state.append(CardLine(closed, "yellow"))
    hours = max(0, int((proposal.expires_at - summary.now).total_seconds() // 3600))
    several = f"h (harmful) freezes all {len(summary.askers)} hosts that ask"
    return (
        *state,
        says[summary.needs],
        *(CardLine(visible(f"reviewers of {one.where}: {', '.join(one.names)}")) for one in summary.reviewers),
        *((CardLine(several, "yellow"),) if summary.also and summary.waits else ()),
        CardLine(f"expires  {proposal.expires_at:%Y-%m-%d %H:%M} UTC (in {hours // 24} days {hours % 24} hours)"),
        CardLine(f"id       {visible(proposal.id)}"),
        CardLine(f"hash     {visible(proposal.hash)}"),
    )


def _lines(text: str, *, indent: str = "", style: str = "") -> Iterable[CardLine]:
    """Return the lines of the text. Only a newline ends a line; other characters that break lines are marked instead."""
    return [CardLine(f"{indent}{visible(line)}", style) for line in text.split("\n")] if text else []
