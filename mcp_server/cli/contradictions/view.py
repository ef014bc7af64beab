"""Contradictions as lines of a terminal. Texts of pages and hosts are made visible. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from agents.report.overview import moment_text
from knowledge.contradictions.record import settled_sentence
from knowledge.contradictions.settlement import CHOICES, SideNow
from knowledge.contradictions.statement_place import StatementPlace
from knowledge.history.ports import Flag
from knowledge.merge.document.units import bare, split_lines
from knowledge.merge.model import Side
from mcp_server.cli.terminal.escape import visible
from mcp_server.presenters.contradiction import ContradictionSummary, numbered

SHOWN = 300
"""Characters of each side in a list."""
STATES = {
    "several": "more than once",
    "unwritten": "not written",
    "changed": "no longer there; the page now says",
    "gone": "the page is gone",
}


def list_lines(flags: Iterable[Flag]) -> list[str]:
    """Return each contradiction with both sides, as a list shows it."""
    lines: list[str] = []
    for flag in flags:
        found = flag.contradiction
        lines.append(f"{flag.id}  {found.confidence:.2f}  {visible(found.reason)}")
        for name, side in zip(CHOICES, (found.existing, found.new), strict=True):
            written = "" if side.revision is not None else ", not written"
            believed = "?" if side.confidence is None else f"{side.confidence:.2f}"
            lines.append(f"    {name}: {_where(side.path, side.section)} ({visible(side.source)}, {believed}{written})")
            text = " ".join(side.text.split())
            lines.append(f"      {visible(text if len(text) <= SHOWN else text[: SHOWN - 3] + '...')}")
        lines += [f"    {line}" for line in _end_lines(flag)]
    return lines


def side_lines(summary: ContradictionSummary) -> list[str]:
    """Return one contradiction: who asks, and both sides in their pages as they are now."""
    flag = summary.flag
    found = flag.contradiction
    lines = [f"contradiction {flag.id} ({found.kind}, {found.confidence:.2f}): {visible(found.reason)}"]
    lines += [f"reported by {visible(who)}, {moment_text(at)}" for who, at in summary.askers.items()]
    lines += [f"proposal {claim.proposal.id} asks to write the second statement" for claim in summary.claims]
    lines += _end_lines(flag)
    lines += [f"proposal {line.id} of {visible(line.principal)} was closed with it" for line in summary.closed]
    for name, now in zip(CHOICES, summary.now.sides, strict=True):
        lines += ["", f"{name}: {_heading(now)}", f"  {_provenance(now)}", *_text_lines(now)]
    return lines


def effect_lines(summary: ContradictionSummary) -> list[str]:
    """Return what keeping either side would do now."""
    lines: list[str] = []
    for choice in CHOICES:
        lines += ["", f"keep {choice}: {visible(summary.effect_of(choice))}"]
        lines += diff_lines(summary.now.keeps[choice].diff)
    return lines


def diff_lines(diff: str) -> list[str]:
    """Return the lines of a diff, indented."""
    return [f"    {visible(bare(line))}" for line in split_lines(diff)]


def choices_lines(summary: ContradictionSummary) -> list[str]:
    """Return the commands that settle an open contradiction."""
    number = summary.flag.id
    command = "knowledge-forge contradictions"
    kept = [f"{command} keep {number} {one}" for one in CHOICES if not summary.now.keeps[one].why_not]
    pages = dict.fromkeys(now.side.path for now in summary.now.sides)
    return [
        *kept,
        f"{command} both {number} --reason TEXT",
        f"{command} dismiss {number} --reason TEXT",
        *([f"{command} edit {number}"] if summary.now.blocks else []),
        *(f"knowledge-forge read {shlex.quote(visible(path))}" for path in pages),
    ]


def _end_lines(flag: Flag) -> list[str]:
    if flag.settled_at is not None:
        why = flag.settlement.reason if flag.settlement else ""
        told = f"settled {moment_text(flag.settled_at)}: {settled_sentence(flag)}"
        return [visible(told + (f": {why}" if why else ""))]
    if flag.dismissal is not None:
        word = "both hold" if flag.dismissal.ruling == "both" else "the existing claim stays"
        return [visible(f"{flag.dismissal.by}, {moment_text(flag.dismissal.at)}: {word}: {flag.dismissal.reason}")]
    return []


def _heading(now: SideNow) -> str:
    first = now.places[0] if now.places else None
    where = _where(now.side.path, first.section if first else now.side.section)
    lines = ", ".join(str(place.line) for place in now.places)
    state = f" ({STATES[now.state]})" if now.state in STATES else ""
    return f"{where}{f', line {lines}' if lines else ''}{state}"


def _provenance(now: SideNow) -> str:
    side: Side = now.side
    believed = "unknown" if side.confidence is None else f"{side.confidence:.2f}"
    observed = "unknown" if side.observed_at is None else moment_text(side.observed_at)
    by = f", written by {now.origin.by}" if now.origin and now.origin.by else ""
    return visible(
        f"source {side.source}, authority {side.authority:.2f}, confidence {believed}, observed {observed}{by}"
    )


def _text_lines(now: SideNow) -> list[str]:
    if not now.places and now.instead is None:
        return [f"    > {visible(bare(line))}" for line in split_lines(now.side.text)]
    return [line for place in now.places or (now.instead,) if place is not None for line in _place_lines(place)]


def _place_lines(place: StatementPlace) -> list[str]:
    return [f"  {'>' if line.own else ' '} {line.number:>4}  {visible(line.text)}".rstrip() for line in numbered(place)]


def _where(path: str, section: str) -> str:
    return visible(path) + (f" > {visible(section)}" if section else "")
