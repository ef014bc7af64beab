"""The messages and authors of commits. Pure.

Trailers are read by programs, and subjects on terminals, so no text of a host or a page may begin a line or act on a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowledge.history.acts import APPROVED_BY, IMPORT, IMPORT_ATTACHMENT, IMPORT_TOOL, PERSONS
from knowledge.pages.paths import ACTING
from knowledge.pages.vault import REVISION_DIGITS

LONGEST_SUBJECT = 100
LONGEST_VALUE = 300
MOST_LISTED = 50
NO_DOMAIN = "knowledge-forge.invalid"
"""The domain of a host's address as an author: `.invalid` never exists (RFC 2606), so the address is nobody's."""
SERVER = "knowledge-forge"
OUTSIDE_SUBJECT = "outside Knowledge Forge"
_ACTS = re.compile(f"[{ACTING}\t\n\ud800-\udfff]+")
_NOT_IN_ADDRESS = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """A page of an act: revisions before and after, None where there is no page.

    The bytes of an attachment are not kept: they are only in its file.
    """

    path: str
    before: str | None
    after: str | None
    moved_from: str | None = None
    is_kept: bool = True


@dataclass(frozen=True, slots=True)
class ActOnPages:
    """An act on pages, as its audit record has it. For an import, `parts` are its acts, each on one file."""

    record: int
    at: datetime
    principal: str
    tool: str
    source: str
    proposal: str
    decision: str
    intent: str
    outcome: str
    undoes: tuple[int, ...]
    changes: tuple[ChangedPath, ...]
    call: str = ""
    parts: tuple[ActOnPages, ...] = ()

    @property
    def recorded(self) -> tuple[ActOnPages, ...]:
        """The acts as they are on record, oldest first."""
        return self.parts or (self,)

    @property
    def import_id(self) -> str:
        """The import that it belongs to, "" for other acts."""
        return self.call.removeprefix(IMPORT) if self.tool == IMPORT_TOOL and self.call.startswith(IMPORT) else ""

    @property
    def by_person(self) -> bool:
        """Whether a person made it, at a terminal or on the page."""
        return self.principal.rpartition("@")[2] in PERSONS


def act_of(record: int, fields: Mapping[str, Any]) -> ActOnPages | None:
    """Return the act with these fields of an audit record, None if it changed no page."""
    changes = fields.get("changes")
    found = [
        ChangedPath(str(one["path"]), one.get("before"), one.get("after"), one.get("moved_from"))
        for one in (changes if isinstance(changes, list) else [])
        if isinstance(one, dict) and "path" in one
    ]
    changed = tuple(one for one in found if one.before != one.after or one.moved_from is not None) or _attachment(
        fields
    )
    try:
        at = datetime.fromisoformat(str(fields.get("at")))
    except ValueError:
        return None
    if not changed:
        return None
    words = {
        name: str(fields.get(name) or "")
        for name in ("principal", "tool", "source", "proposal", "decision", "intent", "outcome")
    }
    undoes = fields.get("undoes")
    call = str(fields.get("call") or "")
    taken_back = tuple(one for one in undoes if isinstance(one, int)) if isinstance(undoes, list) else ()
    return ActOnPages(record, at, **words, undoes=taken_back, changes=changed, call=call, parts=())


def author_of(act: ActOnPages, person: tuple[str, str]) -> tuple[str, str]:
    """Return the author's name and address: the person for their own act, else the host on behalf of its user."""
    if act.by_person:
        return person
    user, _, host = act.principal.rpartition("@")
    name = f"{host} on behalf of {user}" if user else "Knowledge Forge"
    return one_line(name, 100).replace("<", "").replace(">", ""), f"{_NOT_IN_ADDRESS.sub('-', host)}@{NO_DOMAIN}"


def message_of(act: ActOnPages) -> str:
    """Return the commit message of an act: the subject, the pages if there are several, the reason, and the trailers."""
    user, _, host = act.principal.rpartition("@")
    paragraphs = [subject_of(act)]
    lines = [_sentence(change) for change in _pages(act)]
    if len(lines) > 1:
        more = [f"and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
        paragraphs.append("\n".join(f"- {line}" for line in [*lines[:MOST_LISTED], *more]))
    if act.intent and not act.import_id:
        paragraphs.append(f"Reason: {one_line(act.intent)}")
    approved = act.decision.removeprefix(APPROVED_BY) if act.decision.startswith(APPROVED_BY) else ""
    trailers = {
        "Forge-Host": host,
        "Forge-User": user,
        "Forge-Source": act.source,
        "Forge-Proposal": act.proposal,
        "Forge-Approved-By": approved,
        "Forge-Import": act.import_id,
        "Forge-Act": f"{act.parts[0].record}-{act.record}" if act.parts else str(act.record),
    }
    paragraphs.append("\n".join(f"{name}: {one_line(value)}" for name, value in trailers.items() if one_line(value)))
    return "\n\n".join(paragraphs) + "\n"


def subject_of(act: ActOnPages) -> str:
    """Return one line that says what happened, and to which page."""
    pages = _pages(act)
    first, rest = pages[0], len(pages) - 1
    named = one_line(first.path)
    others = f" and {rest} more page{'s'[: rest != 1]}" if rest else ""
    match act.tool:
        case "undo":
            numbers = ", ".join(str(number) for number in act.undoes[:3]) + (", ..." if len(act.undoes) > 3 else "")
            subject = f"Undo change{'s'[: len(act.undoes) != 1]} {numbers} in {named}{others}"
        case "contradiction.settle":
            subject = f"Settle a contradiction in {named}{others}"
        case "kb_revert":
            subject = f"Restore {named}{others}"
        case "restore":
            subject = f"Restore text in {named} that an editor overwrote"
        case "import" if act.parts:
            attachments = sum(not change.is_kept for change in act.changes)
            counts = [(len(act.changes) - attachments, "page"), (attachments, "attachment")]
            named = " and ".join(f"{count:,} {noun}{'s'[: count != 1]}" for count, noun in counts if count)
            subject = f"Import {named} from {one_line(act.source)}"
        case _:
            subject = _sentence(first) + others
    return subject if len(subject) <= LONGEST_SUBJECT else subject[: LONGEST_SUBJECT - 3] + "..."


def outside_message(paths: Sequence[str], record: int) -> str:
    """Return the message of the commit of edits made outside the server that an act builds on."""
    return _outside(paths, f"Change {record} builds on this text, which was not committed.")


def edits_message(paths: Sequence[str]) -> str:
    """Return the message of the commit of edits made outside the server, before they are sent to a remote."""
    return _outside(paths, "These edits were not committed.")


def joining_message(remote: str, counts: Mapping[str, int]) -> str:
    """Return the message of the commit that merges a remote's branch; `counts` of pages, such as `{"merged": 3}`."""
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"Merge {one_line(remote)}\n\n" + (f"Pages: {told}.\n\n" if told else "") + "Forge-Source: sync\n"


def _outside(paths: Sequence[str], why: str) -> str:
    rest = len(paths) - 1
    others = f" and {rest} more page{'s'[: rest != 1]}" if rest else ""
    subject = f"Edit {one_line(paths[0])}{others} {OUTSIDE_SUBJECT}"
    if len(subject) > LONGEST_SUBJECT:
        subject = subject[: LONGEST_SUBJECT - 3] + "..."
    return f"{subject}\n\n{why}\n\nForge-Source: outside\n"


def one_line(text: str, most: int = LONGEST_VALUE) -> str:
    """Return the text as one line of at most `most` characters, without characters that act on terminals."""
    line = " ".join(_ACTS.sub(" ", text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _attachment(fields: Mapping[str, Any]) -> tuple[ChangedPath, ...]:
    """Return the attachment that an import brought; attachments have no history, so their record names no change."""
    path = str(fields.get("intent") or "")
    if fields.get("tool") != IMPORT_TOOL or not path.startswith(IMPORT_ATTACHMENT) or fields.get("outcome") == "undone":
        return ()
    digest = str(fields.get("arguments_hash") or "")[:REVISION_DIGITS]
    return (ChangedPath(path.removeprefix(IMPORT_ATTACHMENT), None, digest, is_kept=False),)


def _pages(act: ActOnPages) -> Sequence[ChangedPath]:
    """Return the pages of the act: one that moved counts once, and comes first."""
    left = {change.moved_from for change in act.changes if change.moved_from is not None}
    pages = [change for change in act.changes if not (change.after is None and change.path in left)]
    return sorted(pages, key=lambda change: change.moved_from is None)


def _sentence(change: ChangedPath) -> str:
    path = one_line(change.path)
    if change.moved_from is not None:
        return f"Move {one_line(change.moved_from)} to {path}"
    if change.after is None:
        return f"Delete {path}"
    return f"Create {path}" if change.before is None else f"Edit {path}"
