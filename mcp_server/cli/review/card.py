"""What a person is shown of a proposal in a terminal: everything that a decision is about, inert and in reading order. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowledge.errors import size_in_words
from knowledge.merge.model import Contradiction
from knowledge.trust.ports import Proposal, ProposalLine, State
from mcp_server.approvals.approvers import Requirement
from mcp_server.approvals.summary import becomes
from mcp_server.cli.terminal.escape import visible

MOST_LINES, LONGEST_LINE = 40, 1_000
"""More of a block, or of one line, is folded until the person asks for everything."""
_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_KNOWN = {"status", "proposal", "path", "revision", "blocks", "diff", "conflicts", "verified", "note", "changed"}
_KNOWN |= {"answer", "files", "sentence", "run", "places", "repeats"}
_COUNTED: Mapping[State, str] = {
    "executed": "carried out",
    "rejected": "rejected",
    "failed": "failed",
    "pending": "waiting",
    "withdrawn": "taken back",
    "superseded": "replaced",
    "expired": "expired",
}


@dataclass(frozen=True, slots=True)
class CardLine:
    """One line, inert already; `style` is rich's."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class CardBlock:
    """Lines under a heading."""

    title: str
    lines: tuple[CardLine, ...]


@dataclass(frozen=True, slots=True)
class CardContext:
    """What is known beside the proposal: who asks, what approving here takes, the contradictions that it would settle."""

    asker: Asker
    needs: Requirement
    now: datetime
    contradictions: Sequence[Contradiction] = ()


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: what the principal holds now, and how its earlier proposals ended."""

    principal: str
    score: float
    level: int
    frozen: bool
    past: Mapping[State, int]


def counted(proposals: Iterable[Proposal | ProposalLine], *, besides: str) -> Mapping[State, int]:
    """Return how many ended in which way, leaving out the one that is being looked at."""
    return Counter(p.state for p in proposals if p.id != besides)


def listed(proposal: Proposal | ProposalLine) -> str:
    """Return the proposal as one inert line: what it is, and what it would do."""
    if isinstance(proposal, Proposal):
        return f"{visible(proposal.tool)}: {_sentence(proposal)}"
    return f"{visible(proposal.tool)}: {visible(proposal.sentence or f'call {proposal.tool}')}"


def card(proposal: Proposal, about: CardContext) -> tuple[CardBlock, ...]:
    """Return all there is to say of `proposal`, nothing cut."""
    preview = _preview(proposal)
    answer = preview.get("answer")
    answer = answer if isinstance(answer, dict) else {}
    blocks = [
        CardBlock("What it does", (CardLine(_sentence(proposal), "bold"), *_note(answer))),
        CardBlock("Why this needs approval", (*_lines(proposal.why), *_places(preview.get("places")))),
        CardBlock("Who asks", _who(proposal, about.asker)),
        CardBlock("Run", tuple(_run(preview.get("run")))),
        CardBlock("Both sides", tuple(line for one in about.contradictions for line in _sides(one))),
        CardBlock("Verdicts", tuple(_verdicts(answer.get("blocks")))),
        CardBlock("Conflicts", tuple(_conflicts(answer.get("conflicts")))),
        *_files(preview.get("files")),
        CardBlock("Expected result", tuple(_more({**preview, **answer})) if proposal.kind != "admin" else ()),
        CardBlock("Exact call", tuple(_calls(proposal))),
        CardBlock("Deciding", _approvals(proposal, about.needs, about.now)),
    ]
    return tuple(block for block in blocks if block.lines)


def folded(blocks: Sequence[CardBlock]) -> tuple[tuple[CardBlock, ...], bool]:
    """Return the blocks with what is long left out and counted, and whether anything was."""
    shorter = tuple(CardBlock(block.title, _fold(block.lines)) for block in blocks)
    return shorter, shorter != tuple(blocks)


def fields(proposal: Proposal) -> dict[str, object]:
    """Return the proposal for a program to read: as it is, with the hash that a decision has to name."""
    verdict = proposal.verdict
    return {
        "id": proposal.id,
        "kind": proposal.kind,
        "tool": proposal.tool,
        "state": proposal.state,
        "principal": proposal.principal,
        "level_needed": proposal.level_needed,
        "level_held": proposal.level_held,
        "why": proposal.why,
        "arguments": _json(proposal.arguments),
        "preview": _json(proposal.preview),
        "hash": proposal.hash,
        "created_at": proposal.created_at.isoformat(timespec="seconds"),
        "expires_at": proposal.expires_at.isoformat(timespec="seconds"),
        "decision": None
        if verdict is None
        else {
            "approved": verdict.approved,
            "by": verdict.by,
            "channel": verdict.channel,
            "note": verdict.note,
            "at": verdict.at.isoformat(timespec="seconds"),
            "signed": bool(verdict.signed),
            "advisory": verdict.advisory,
        },
        "result": _json(proposal.result) if proposal.result else None,
        "error": proposal.error,
        "successor": proposal.successor,
        "shortened_from_bytes": proposal.cut.size_bytes if proposal.cut else None,
    }


def ending(proposal: Proposal) -> str:
    """Return how it stands with the proposal, as one inert sentence."""
    said = {
        "pending": "it is still waiting",
        "approved": "approved; being carried out",
        "executed": "approved, and carried out",
        "rejected": "rejected",
        "expired": "expired; nothing was done",
        "withdrawn": "withdrawn; nothing was done",
    }
    if proposal.state == "approved" and not proposal.runner:
        return f"approved; {visible(proposal.tool)} is not listed with the settings given here: the next server that lists it does it"
    if run := _begun(proposal):
        return (
            f"approved, and run {run} was begun; knowledge-forge runs follow {run} shows it, "
            f"and runs resume {run} leads it where no server with its model does"
        )
    if proposal.state == "failed":
        return f"approved, but it failed: {visible(proposal.error or 'no reason is recorded')}"
    if proposal.state == "superseded":
        return f"nothing was done; replaced by {proposal.successor or 'another proposal'}"
    return said[proposal.state]


def _begun(proposal: Proposal) -> str:
    """Return the run that goes on by itself since the proposal was carried out; "" if none does."""
    result = _json(proposal.result) if proposal.state == "executed" and proposal.result else None
    if not isinstance(result, Mapping) or result.get("status") != "running":
        return ""
    return visible(str(result.get("run_id") or ""))


def _sentence(proposal: Proposal) -> str:
    said = _preview(proposal).get("sentence")
    return visible(said if isinstance(said, str) and said else f"call {proposal.tool}")


def _note(answer: Mapping[str, Any]) -> tuple[CardLine, ...]:
    return tuple(_lines(answer["note"])) if isinstance(answer.get("note"), str) else ()


def _who(proposal: Proposal, asker: Asker) -> tuple[CardLine, ...]:
    holds = "frozen until a person unfreezes it" if asker.frozen else f"score {asker.score:.2f}, level {asker.level}"
    past = ", ".join(f"{asker.past[state]} {word}" for state, word in _COUNTED.items() if asker.past.get(state))
    before = f"{past} before" if past else "no earlier proposals"
    if proposal.kind == "admin":  # it is a person's own question: they hold no level
        user, _, place = asker.principal.rpartition("@")
        return CardLine(f"{visible(user)}, by the {visible(place)}", "bold"), CardLine(before)
    asked = f"needed level {proposal.level_needed}, had {proposal.level_held}; "
    return CardLine(f"{visible(asker.principal)}, {holds}", "bold"), CardLine(asked + before)


def _run(run: object) -> Iterable[CardLine]:
    """Yield what the run is to reach that made the call, and where all of it can be read."""
    if isinstance(run, dict):
        yield CardLine(visible(f"goal: {run.get('goal') or 'unknown here'}"), "bold")
        yield CardLine(visible(f"to see its steps: knowledge-forge runs show {run.get('id')}"))


def _places(found: object) -> Iterable[CardLine]:
    """Yield the places for which a person could vouch instead."""
    for place in found if isinstance(found, list) else ():
        yield CardLine(f"press t to trust {visible(str(place))}: text from there then needs no approval", "dim")


def _sides(contradiction: Contradiction) -> Iterable[CardLine]:
    yield CardLine(f"{visible(contradiction.kind)}: {visible(contradiction.reason)}", "bold")
    for name, side, style in (("is there", contradiction.existing, "red"), ("comes in", contradiction.new, "green")):
        seen = f", observed {side.observed_at:%Y-%m-%d}" if side.observed_at else ""
        weighed = f"confidence {side.confidence:.2f}, authority {side.authority:.2f}"
        yield CardLine(f"{name}: {visible(side.source)} in {visible(side.path)}, {weighed}{seen}", style)
        yield from _lines(side.text, indent="  ", style=style)


def _verdicts(found: object) -> Iterable[CardLine]:
    styles = {"update": "green", "integrate": "green", "flag": "yellow", "conflict": "red", "retain": "yellow"}
    for block in _mappings(found):
        word, section = str(block.get("verdict", "")), str(block.get("section", ""))
        yield CardLine(f"{visible(word)}  {visible(section)}", styles.get(word, ""))
        yield from _lines(str(block.get("reason", "")), indent="  ")
        for name in ("new", "existing"):
            if isinstance(block.get(name), dict):
                yield CardLine(f"  {name:<8}  {_weighed(block[name])}", "dim")


def _weighed(side: Mapping[str, Any]) -> str:
    parts = ("confidence", "recency", "authority", "corroboration")
    return ", ".join(f"{part} {_number(side[part])}" for part in parts if part in side)


def _number(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else visible(str(value))


def _conflicts(found: object) -> Iterable[CardLine]:
    for conflict in _mappings(found):
        yield CardLine(visible(str(conflict.get("section", ""))), "bold")
        for name, style in (("base", "dim"), ("ours", "red"), ("theirs", "green")):
            yield CardLine(f"{name}:", style)
            yield from _lines(str(conflict.get(name, "")), indent="  ", style=style)


def _files(found: object) -> Iterable[CardBlock]:
    for file in _mappings(found):
        path, before, after = file.get("path"), file.get("before"), file.get("after")
        what = "is created" if before is None else "is deleted" if after is None else "changes"
        what = becomes(file) if file.get("sent") else what
        came = f", moved from {visible(str(file['moved_from']))}" if file.get("moved_from") else ""
        diff = tuple(
            CardLine(visible(line), _diff_style(line)) for line in str(file.get("diff") or "").split("\n") if line
        )
        same = "no text" if file.get("sent") else "text unchanged"
        yield CardBlock(f"{visible(str(path))} {what}{came}", diff or (CardLine(same, "dim"),))


def _diff_style(line: str) -> str:
    return next((style for mark, style in _DIFF_STYLES if line.startswith(mark)), "")


def _more(answer: Mapping[str, Any]) -> Iterable[CardLine]:
    """Yield what an answer says that is not shown elsewhere, whatever tool it is of."""
    known = {*_KNOWN, "preview"} if any(file.get("sent") for file in _mappings(answer.get("files"))) else _KNOWN
    rest = {key: value for key, value in answer.items() if key not in known and value not in (None, "", [], {})}
    return [line for name, value in rest.items() for line in _named(name, value)]


def _calls(proposal: Proposal) -> Iterable[CardLine]:
    calls = _json(proposal.arguments)
    calls = calls if isinstance(calls, list) else [calls]
    for number, arguments in enumerate(calls, 1):
        count = f"  ({number} of {len(calls)}, one act)" if len(calls) > 1 else ""
        yield CardLine(f"{visible(proposal.tool)}{count}", "bold")
        if isinstance(arguments, dict):
            for name, value in arguments.items():
                yield from _named(str(name), value)
        else:
            yield from _lines(json.dumps(arguments, ensure_ascii=False))


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


def _approvals(proposal: Proposal, needs: Requirement, now: datetime) -> tuple[CardLine, ...]:
    says: Mapping[Requirement, CardLine] = {
        "word": CardLine("no passkey needed"),
        "advisory": CardLine("not protected by a passkey: any program of your account could approve here", "yellow"),
        "passkey": CardLine("needs a passkey, on the review page (knowledge-forge review --web)", "yellow"),
        "elsewhere": CardLine("needs a passkey, on the review page (knowledge-forge review --web)", "yellow"),
    }
    left = proposal.expires_at - now
    hours = max(0, int(left.total_seconds() // 3600))
    state = [] if proposal.state == "pending" else [CardLine(ending(proposal), "bold")]
    if proposal.cut:
        size = size_in_words(proposal.cut.size_bytes)
        state.append(
            CardLine(
                f"this proposal is closed, so only the beginning of its long texts is kept; the original had {size}",
                "yellow",
            )
        )
    return (
        *state,
        says[needs],
        CardLine(f"expires  {proposal.expires_at:%Y-%m-%d %H:%M} UTC (in {hours // 24} days {hours % 24} hours)"),
        CardLine(f"id       {visible(proposal.id)}"),
        CardLine(f"hash     {visible(proposal.hash)}"),
    )


def _fold(lines: tuple[CardLine, ...]) -> tuple[CardLine, ...]:
    kept = [_short(line) for line in lines[:MOST_LINES]]
    more = len(lines) - MOST_LINES
    return (*kept, CardLine(f"... {more} more lines (o opens everything)", "reverse")) if more > 0 else tuple(kept)


def _short(line: CardLine) -> CardLine:
    more = len(line.text) - LONGEST_LINE
    if more <= 0:
        return line
    return CardLine(f"{line.text[:LONGEST_LINE]} ... {more} more characters (o opens everything)", line.style)


def _lines(text: str, *, indent: str = "", style: str = "") -> Iterable[CardLine]:
    """Yield the text a line at a time. Only a newline ends one: what else breaks lines is a mark, not a break."""
    return [CardLine(f"{indent}{visible(line)}", style) for line in text.split("\n")] if text else []


def _preview(proposal: Proposal) -> Mapping[str, Any]:
    found = _json(proposal.preview)
    return found if isinstance(found, dict) else {}


def _mappings(found: object) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _json(text: str) -> Any:
    """Return what the text says; what is no JSON is shown as the text that it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
