"""The records that an act leaves in a ledger, the same for every engine. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from knowledge.history.audit.chain import fields_of
from knowledge.history.ports import AuditRecord, FileChange, HistoryEntry, Intent, RecordedAct, Revision
from knowledge.history.timestamps import aware

APPROVED_BY = "approved by "
"""The beginning of the decision of an act that a person approved; the name and, in parentheses, the place follow."""
FOLLOW = "follow"
"""The tool of the act in which the server follows a page that somebody moved outside it."""
IMPORT = "import/"
"""Prefix of `Actor.call` in the acts of an import, before its id."""
IMPORT_TOOL = "import"
IMPORT_FINISHED = "finish the import"
"""The beginning of the intent of the record that ends an import."""
IMPORT_ATTACHMENT = "import the attachment "
"""The beginning of the intent of the record of an imported attachment; its path follows. The hash of its arguments is that of its
bytes."""
PERSONS = ("terminal", "page")
"""The part in place of a host in the principal of a person: `USER@terminal`, `USER@page`."""
MOST_DIGITS = 18
"""A number of more digits may be larger than any that databases can store."""


def pages_changed(entry: HistoryEntry) -> Sequence[FileChange]:
    """Return the changes that belong in a page's history: those of its bytes or its path."""
    return [change for change in entry.changes if change.before != change.after or change.moved_from is not None]


def paths_to_tell(entry: HistoryEntry) -> Sequence[str]:
    """Return every path at which something has changed, once."""
    changes = pages_changed(entry)
    return list(dict.fromkeys(path for c in changes for path in (c.path, c.moved_from) if path is not None))


def moves(entry: HistoryEntry) -> Mapping[str, str]:
    """Return the former paths of pages by their new ones."""
    return {c.path: c.moved_from for c in entry.changes if c.moved_from is not None}


def origins_at(entry: HistoryEntry) -> Mapping[str, str]:
    """Return the revision that the given origins of each page belong to.

    Raises:
        ValueError: there are origins of a page that the act does not name, or that is gone after it: a bug in the
            caller.
    """
    after = {change.path: change.after for change in entry.changes}
    found = {path: after.get(path) for path in entry.origins}
    lost = [path for path, revision in found.items() if revision is None]
    if lost:
        raise ValueError(f"origins of {lost[0]!r}, which is not among the pages that the act leaves behind")
    return {path: revision for path, revision in found.items() if revision is not None}


def carries_out(entry: HistoryEntry) -> str | None:
    """Return the id of the proposal that the act carries out, None if it has none."""
    return None if entry.proposal is None or entry.outcome == "undone" else storable(entry.proposal)


def require_sound(entry: HistoryEntry) -> None:
    """Check that the entry can be recorded.

    Raises:
        ValueError: a time has no zone, or origins belong to no page of the act.
    """
    aware(entry.at)
    for origins in entry.origins.values():
        for origin in origins:
            aware(origin.observed_at)
    origins_at(entry)


def states_given(intent: Intent, given: Mapping[str, bytes]) -> Sequence[tuple[str, str]]:
    """Return the path and revision of each state before or after the act whose content is given.

    `given` has the contents by revision.

    Raises:
        ValueError: `given` has content that no change names, and that would be lost.
    """
    require_sound(intent.entry)
    aware(intent.at)
    named = dict.fromkeys((c.path, revision) for c in intent.entry.changes for revision in (c.before, c.after))
    states = [(path, revision) for path, revision in named if revision is not None and revision in given]
    strange = given.keys() - {revision for _, revision in states}
    if strange:
        raise ValueError(f"content of revision {min(strange)}, which no change of the act names")
    return states


def storable(text: str) -> str:
    """Return a text that every database can store: `?` for an incomplete surrogate pair, U+FFFD for NUL."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def outside_line(id_: int, path: str, revision: str | None, last: Revision | None, at: datetime) -> Revision:
    """Return the line for a state that was made outside the server, after the newest line so far."""
    return Revision(id_, path, revision, last.revision if last else None, at, "outside")


def history_line(id_: int, entry: HistoryEntry, change: FileChange, seq: int) -> Revision:
    """Return the line that a change adds to its page's history."""
    return Revision(
        id=id_,
        path=change.path,
        revision=change.after,
        before=change.before,
        at=entry.at,
        how="written",
        principal=storable(entry.actor.principal),
        tool=storable(entry.actor.tool),
        source=storable(entry.source),
        confidence=entry.confidence,
        proposal=None if entry.proposal is None else storable(entry.proposal),
        intent=storable(entry.intent),
        lines_added=change.lines_added,
        lines_removed=change.lines_removed,
        moved_from=change.moved_from,
        seq=seq,
    )


def lines_changed(before: bytes | None, after: bytes | None) -> tuple[int, int]:
    """Return how many lines a page has gained and how many it has lost, wherever in it; None is no page."""
    old, new = (Counter((raw or b"").splitlines()) for raw in (before, after))
    return (new - old).total(), (old - new).total()


def act_name(line: Revision) -> str:
    """Return the name by which people select the act that added this line: the number of its audit record.

    A state that was made outside the server has none; its name is `e` and the id of its line.
    """
    return f"e{line.id}" if line.seq is None else str(line.seq)


def named_act(name: str) -> tuple[int | None, int | None] | None:
    """Return the number of the audit record, or else the id of the line, of the act with this name; None if it is not a name."""
    number = name.removeprefix("e")
    if not (number.isascii() and number.isdecimal() and len(number) <= MOST_DIGITS) or str(int(number)) != number:
        return None
    return (None, int(number)) if name.startswith("e") else (int(number), None)


def recorded_act(lines: Sequence[Revision], record: AuditRecord | None) -> RecordedAct:
    """Return the act with these lines and this audit record; a state that was made outside the server has no record."""
    fields = {} if record is None else fields_of(record)
    outcome, decision, call = (str(fields.get(name) or "") for name in ("outcome", "decision", "call"))
    undoes = fields.get("undoes")
    taken_back = tuple(one for one in undoes if isinstance(one, int)) if isinstance(undoes, list) else ()
    return RecordedAct(tuple(lines), outcome, decision, call, taken_back)
