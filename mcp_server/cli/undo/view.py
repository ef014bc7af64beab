"""An undo as text: the changes that it takes back, what it does to pages, and what stays in conflict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from knowledge.history.timestamps import utc_text
from knowledge.writing.effect import FileEffect
from knowledge.writing.undo.past_act import PastAct, UndoAnswer, UndoConflict
from knowledge.writing.undo.undo import UndoPlan
from mcp_server.cli.terminal import times
from mcp_server.cli.terminal.escape import visible

MOST_ACTS, MOST_PAGES, MOST_DIFF_LINES, MOST_CONFLICTS, MOST_SIDE_LINES = 30, 50, 300, 30, 12

OF_MANY = {"moves back": "move back", "comes back": "come back", "goes away": "go away", "changes": "change"}


def plan_lines(plan: UndoPlan) -> Iterator[str]:
    """Yield the rehearsal: the changes, the diff of each page, the conflicts and remarks."""
    for act in plan.acts[:MOST_ACTS]:
        yield visible(_act_line(act))
    if len(plan.acts) > MOST_ACTS:
        yield f"and {len(plan.acts) - MOST_ACTS:,} more changes"
    yield from change_lines(plan)


def change_lines(plan: UndoPlan) -> Iterator[str]:
    """Yield the diff of the first pages, the number of the others, the first open conflicts, and remarks."""
    shown, pages = 0, changed_pages(plan)
    for file in pages[:MOST_PAGES]:
        yield ""
        yield visible(_file_line(file))
        lines = file.diff.splitlines()[2:]
        for line in lines[: max(MOST_DIFF_LINES - shown, 0)]:
            yield visible(line)
        shown += len(lines)
    if shown > MOST_DIFF_LINES:
        yield f"({shown - MOST_DIFF_LINES:,} more lines; --json has all)"
    if rest := pages[MOST_PAGES:]:
        counts = Counter(_file_outcome(file) for file in rest)
        kinds = ", ".join(
            f"{count:,} {OF_MANY[outcome] if count > 1 else outcome}" for outcome, count in counts.items()
        )
        yield f"\nand {len(rest):,} more pages ({kinds}); --json has all"
    yield from conflict_lines(plan.answer.conflicts)
    for note in plan.answer.notes[:MOST_CONFLICTS]:
        yield visible(note)
    if len(plan.answer.notes) > MOST_CONFLICTS:
        yield f"and {len(plan.answer.notes) - MOST_CONFLICTS:,} more remarks; --json has all"


def changed_pages(plan: UndoPlan) -> Sequence[FileEffect]:
    """Return the change of each page, without the former paths of those that move."""
    left = {file.moved_from for file in plan.files}
    return [file for file in plan.files if file.after is not None or file.path not in left]


def conflict_lines(conflicts: Sequence[UndoConflict]) -> Iterator[str]:
    """Yield the first conflicts with both sides, and the number of the others."""
    for number, conflict in enumerate(conflicts[:MOST_CONFLICTS], 1):
        where = f", in {conflict.section}" if conflict.section else ""
        yield ""
        yield visible(f"conflict {number} ({conflict.id}): {conflict.sentence}{where}")
        for name, side in (("before", conflict.before), ("now", conflict.now)):
            lines = ["(no page)"] if side is None else side.splitlines() or ["(nothing)"]
            for line in lines[:MOST_SIDE_LINES]:
                yield f"  {name + ':':<8}{visible(line)}"
            if len(lines) > MOST_SIDE_LINES:
                yield f"  {name + ':':<8}({len(lines) - MOST_SIDE_LINES} more lines; --json has all)"

    if len(conflicts) > MOST_CONFLICTS:
        yield f"\nand {len(conflicts) - MOST_CONFLICTS:,} more conflicts; --json has all"


def plan_fields(plan: UndoPlan) -> dict[str, Any]:
    """Return the rehearsal as JSON fields."""
    return {
        **answer_fields(plan.answer),
        "changes": [_act_fields(act) for act in plan.acts],
        "files": [
            {
                "path": file.path,
                "moved_from": file.moved_from,
                "before": file.before,
                "after": file.after,
                "diff": file.diff,
            }
            for file in plan.files
        ],
    }


def answer_fields(answer: UndoAnswer) -> dict[str, Any]:
    """Return the outcome as JSON fields."""
    return {
        "status": answer.status,
        "pages": list(answer.pages),
        "gone": list(answer.gone),
        "conflicts": [_conflict_fields(one) for one in answer.conflicts],
        "decided": [{**_conflict_fields(one), "take": one.taken} for one in answer.decided],
        "notes": list(answer.notes),
    }


def outcome_line(answer: UndoAnswer, count: int) -> str:
    """Return a sentence with the outcome of undoing this many changes."""
    pages = len(answer.pages) + len(answer.gone)
    changes = f"{count:,} change{'s' if count != 1 else ''}"
    what = f"{changes} undone on {pages:,} page{'s' if pages != 1 else ''}"
    if answer.status == "partial":
        parts = len(answer.conflicts)
        what += f", except {parts} part{'s' if parts > 1 else ''} in conflict, which stay{'' if parts > 1 else 's'}"
    return what


def _conflict_fields(conflict: UndoConflict) -> dict[str, Any]:
    return {
        "id": conflict.id,
        "path": conflict.path,
        "kind": conflict.kind,
        "section": conflict.section,
        "line": conflict.line,
        "reason": conflict.sentence,
        "before": conflict.before,
        "now": conflict.now,
        "choices": list(conflict.choices),
    }


def _act_line(act: PastAct) -> str:
    by = act.by or "an editor outside the server"
    tool = f"{act.tool} by " if act.tool else ""
    approved = ", approved by a person" if act.proposal else ""
    why = f": {act.intent}" if act.intent else ""
    return f"{act.name}  {times.shown(act.at)} UTC  {tool}{by}{approved}{why}"


def _act_fields(act: PastAct) -> dict[str, Any]:
    return {
        "change": act.name,
        "at": utc_text(act.at),
        "by": act.by,
        "tool": act.tool,
        "intent": act.intent,
        "proposal": act.proposal,
        "pages": [file.path for file in act.files],
    }


def _file_line(file: FileEffect) -> str:
    came = f" from {file.moved_from}" if file.moved_from is not None else ""
    return f"{file.path}: {_file_outcome(file)}{came}"


def _file_outcome(file: FileEffect) -> str:
    if file.moved_from is not None:
        return "moves back"
    if file.before is None:
        return "comes back"
    return "goes away" if file.after is None else "changes"
