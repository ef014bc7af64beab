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
class Line:
    """One line, inert already; `style` is rich's."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines under a heading."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class About:
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


def card(proposal: Proposal, about: About) -> tuple[Block, ...]:
    """Return all there is to say of `proposal`, nothing cut."""
    preview = _preview(proposal)
    answer = preview.get("answer")
    answer = answer if isinstance(answer, dict) else {}
    blocks = [
        Block("What it would do", (Line(_sentence(proposal), "bold"), *_note(answer))),
        Block("Why it asks", (*_lines(proposal.why), *_places(preview.get("places")))),
        Block("Who asks", _who(proposal, about.asker)),
        Block("In which run", tuple(_run(preview.get("run")))),
        Block("Both sides", tuple(line for one in about.contradictions for line in _sides(one))),
        Block("Verdicts", tuple(_verdicts(answer.get("blocks")))),
        Block("Conflicts", tuple(_conflicts(answer.get("conflicts")))),
        *_files(preview.get("files")),
        Block("More of what it would answer", tuple(_more({**preview, **answer})) if proposal.kind != "admin" else ()),
        Block("The exact call", tuple(_calls(proposal))),
        Block("Deciding", _deciding(proposal, about.needs, about.now)),
    ]
    return tuple(block for block in blocks if block.lines)


def folded(blocks: Sequence[Block]) -> tuple[tuple[Block, ...], bool]:
    """Return the blocks with what is long left out and counted, and whether anything was."""
    shorter = tuple(Block(block.title, _fold(block.lines)) for block in blocks)
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
        "approved": "it is approved and being carried out",
        "executed": "approved, and carried out",
        "rejected": "rejected",
        "expired": "its time is over; nothing was done",
        "withdrawn": "it was taken back; nothing was done",
    }
    if proposal.state == "approved" and not proposal.runner:
        return f"approved; {visible(proposal.tool)} is not listed with the settings given here: the next server that lists it does it"
    if run := _begun(proposal):
        return (
            f"approved, and run {run} was begun; knowledge-forge runs follow {run} shows it, "
            f"and runs resume {run} leads it where no server with its model does"
        )
    if proposal.state == "failed":
        return f"approved, but it could not be done: {visible(proposal.error or 'no reason is recorded')}"
    if proposal.state == "superseded":
        return f"nothing was done, another took its place: {proposal.successor or 'none is recorded'}"
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


def _note(answer: Mapping[str, Any]) -> tuple[Line, ...]:
    return tuple(_lines(answer["note"])) if isinstance(answer.get("note"), str) else ()


def _who(proposal: Proposal, asker: Asker) -> tuple[Line, ...]:
    holds = "frozen until a person lifts it" if asker.frozen else f"score {asker.score:.2f}, level {asker.level}"
    past = ", ".join(f"{asker.past[state]} {word}" for state, word in _COUNTED.items() if asker.past.get(state))
    before = f"{past} before" if past else "never proposed anything before"
    if proposal.kind == "admin":  # it is a person's own question: they hold no level
        user, _, place = asker.principal.rpartition("@")
        return Line(f"{visible(user)}, by the {visible(place)}", "bold"), Line(before)
    asked = f"asked for level {proposal.level_needed} and held {proposal.level_held}; "
    return Line(f"{visible(asker.principal)}, {holds}", "bold"), Line(asked + before)


def _run(run: object) -> Iterable[Line]:
    """Yield what the run is to reach that made the call, and where all of it can be read."""
    if isinstance(run, dict):
        yield Line(visible(f"goal: {run.get('goal') or 'not known here'}"), "bold")
        yield Line(visible(f"each of its steps: knowledge-forge runs show {run.get('id')}"))


def _places(found: object) -> Iterable[Line]:
    """Yield the places for which a person could vouch instead."""
    for place in found if isinstance(found, list) else ():
        yield Line(f"t trusts {visible(str(place))}: text from there no longer holds hosts up", "dim")


def _sides(contradiction: Contradiction) -> Iterable[Line]:
    yield Line(f"{visible(contradiction.kind)}: {visible(contradiction.reason)}", "bold")
    for name, side, style in (("is there", contradiction.existing, "red"), ("comes in", contradiction.new, "green")):
        seen = f", observed {side.observed_at:%Y-%m-%d}" if side.observed_at else ""
        weighed = f"confidence {side.confidence:.2f}, authority {side.authority:.2f}"
        yield Line(f"{name}: {visible(side.source)} in {visible(side.path)}, {weighed}{seen}", style)
        yield from _lines(side.text, indent="  ", style=style)


def _verdicts(found: object) -> Iterable[Line]:
    styles = {"update": "green", "integrate": "green", "flag": "yellow", "conflict": "red", "retain": "yellow"}
    for block in _mappings(found):
        word, section = str(block.get("verdict", "")), str(block.get("section", ""))
        yield Line(f"{visible(word)}  {visible(section)}", styles.get(word, ""))
        yield from _lines(str(block.get("reason", "")), indent="  ")
        for name in ("new", "existing"):
            if isinstance(block.get(name), dict):
                yield Line(f"  {name:<8}  {_weighed(block[name])}", "dim")


def _weighed(side: Mapping[str, Any]) -> str:
    parts = ("confidence", "recency", "authority", "corroboration")
    return ", ".join(f"{part} {_number(side[part])}" for part in parts if part in side)


def _number(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else visible(str(value))


def _conflicts(found: object) -> Iterable[Line]:
    for conflict in _mappings(found):
        yield Line(visible(str(conflict.get("section", ""))), "bold")
        for name, style in (("base", "dim"), ("ours", "red"), ("theirs", "green")):
            yield Line(f"{name}:", style)
            yield from _lines(str(conflict.get(name, "")), indent="  ", style=style)


def _files(found: object) -> Iterable[Block]:
    for file in _mappings(found):
        path, before, after = file.get("path"), file.get("before"), file.get("after")
        what = "is created" if before is None else "is deleted" if after is None else "changes"
        what = becomes(file) if file.get("sent") else what
        came = f", moved from {visible(str(file['moved_from']))}" if file.get("moved_from") else ""
        diff = tuple(Line(visible(line), _diff_style(line)) for line in str(file.get("diff") or "").split("\n") if line)
        same = "without any text" if file.get("sent") else "the text stays as it is"
        yield Block(f"{visible(str(path))} {what}{came}", diff or (Line(same, "dim"),))


def _diff_style(line: str) -> str:
    return next((style for mark, style in _DIFF_STYLES if line.startswith(mark)), "")


def _more(answer: Mapping[str, Any]) -> Iterable[Line]:
    """Yield what an answer says that is not shown elsewhere, whatever tool it is of."""
    known = {*_KNOWN, "preview"} if any(file.get("sent") for file in _mappings(answer.get("files"))) else _KNOWN
    rest = {key: value for key, value in answer.items() if key not in known and value not in (None, "", [], {})}
    return [line for name, value in rest.items() for line in _named(name, value)]


def _calls(proposal: Proposal) -> Iterable[Line]:
    calls = _json(proposal.arguments)
    calls = calls if isinstance(calls, list) else [calls]
    for number, arguments in enumerate(calls, 1):
        count = f"  ({number} of {len(calls)}, one act)" if len(calls) > 1 else ""
        yield Line(f"{visible(proposal.tool)}{count}", "bold")
        if isinstance(arguments, dict):
            for name, value in arguments.items():
                yield from _named(str(name), value)
        else:
            yield from _lines(json.dumps(arguments, ensure_ascii=False))


def _named(name: str, value: object) -> Iterable[Line]:
    """Yield a value under its name: text of several lines behind a bar, everything else as JSON."""
    if isinstance(value, str) and "\n" in value:
        yield Line(f"  {visible(name)}: {value.count(chr(10)) + 1} lines")
        yield from _lines(value, indent="  | ")
    else:
        first, *rest = json.dumps(value, ensure_ascii=False, indent=2).split("\n")
        yield Line(f"  {visible(name)}: {visible(first)}")
        for line in rest:
            yield Line(f"  {visible(line)}")


def _deciding(proposal: Proposal, needs: Requirement, now: datetime) -> tuple[Line, ...]:
    says: Mapping[Requirement, Line] = {
        "word": Line("your word is enough"),
        "advisory": Line("advisory: nothing proves that it is a person who approves here; enrol a passkey", "yellow"),
        "passkey": Line("approving needs a passkey, on the review page (knowledge-forge review --web)", "yellow"),
        "elsewhere": Line("approving needs a passkey, on the review page (knowledge-forge review --web)", "yellow"),
    }
    left = proposal.expires_at - now
    hours = max(0, int(left.total_seconds() // 3600))
    state = [] if proposal.state == "pending" else [Line(ending(proposal), "bold")]
    if proposal.cut:
        size = size_in_words(proposal.cut.size_bytes)
        state.append(
            Line(f"only the beginning of its long texts is kept, because it has ended; it had {size}", "yellow")
        )
    return (
        *state,
        says[needs],
        Line(f"expires  {proposal.expires_at:%Y-%m-%d %H:%M} UTC (in {hours // 24} days {hours % 24} hours)"),
        Line(f"id       {visible(proposal.id)}"),
        Line(f"hash     {visible(proposal.hash)}"),
    )


def _fold(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    kept = [_short(line) for line in lines[:MOST_LINES]]
    more = len(lines) - MOST_LINES
    return (*kept, Line(f"... {more} more lines (o opens everything)", "reverse")) if more > 0 else tuple(kept)


def _short(line: Line) -> Line:
    more = len(line.text) - LONGEST_LINE
    if more <= 0:
        return line
    return Line(f"{line.text[:LONGEST_LINE]} ... {more} more characters (o opens everything)", line.style)


def _lines(text: str, *, indent: str = "", style: str = "") -> Iterable[Line]:
    """Yield the text a line at a time. Only a newline ends one: what else breaks lines is a mark, not a break."""
    return [Line(f"{indent}{visible(line)}", style) for line in text.split("\n")] if text else []


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
