"""Setting and removing one member of a JSON text; everything else stays as it is, byte for byte. Pure.

Two laws (tests/unit/hosts/test_json_edit.py): `drop(put(x, path, v), path) == x` wherever `path` was free and what holds it
was there; with `prune=True` also where what holds it was not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.errors import KnowledgeError
from mcp_server.hosts.jsonc import BOM, JsoncDocument, JsoncNode, Member, is_blank, parse

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_BLANKS = re.compile(r"[ \t]*")


class NotAnObject(KnowledgeError):
    """What should hold the member is something else; `path` says where, empty for the whole document."""

    def __init__(self, path: Sequence[str]) -> None:
        self.path = tuple(path)
        super().__init__(f"{_named(path)} is not an object in {{braces}}")


class TwiceTheSameKey(KnowledgeError):
    """A key on the way stands there twice; hosts differ in which one they take."""

    def __init__(self, path: Sequence[str]) -> None:
        self.path = tuple(path)
        super().__init__(f"{_named(path)} stands there twice; remove one of them")


def lookup(text: str, path: Sequence[str]) -> object | None:
    """Return the value at `path` as Python values; None if there is none (or if it is null)."""
    if is_blank(text):
        return None
    node: JsoncNode | None = parse(text).root
    for depth in range(len(path)):
        member = _member(node, path, depth) if node else None
        node = member.node if member else None
    return node.value if node else None


def members(text: str, path: Sequence[str]) -> dict[str, object]:
    """Return what the object at `path` holds, of twice the same key the last; nothing if there is no such object.

    Raises:
        BadJson, NotAnObject, TwiceTheSameKey: as `put` into that object.
    """
    if is_blank(text):
        return {}
    node = parse(text).root
    for depth in range(len(path)):
        member = _member(node, path, depth)
        if member is None:
            return {}
        node = member.node
    if node.members is None:
        raise NotAnObject(path)
    return {member.key: member.node.value for member in node.members}


def put(text: str, path: Sequence[str], value: object) -> str:
    """Return `text` with `value` at `path`, in the text's own style; objects that are missing on the way are made.

    Raises:
        BadJson: `text` is not JSON.
        NotAnObject: something on the way is not an object.
        TwiceTheSameKey: a key on the way is not unique.
    """
    if is_blank(text):
        written = json.dumps(_nested(path, value), indent=2, ensure_ascii=False)
        return (BOM if text.startswith(BOM) else "") + written + "\n"
    node = root = parse(text).root
    unit = _unit(text, root)
    for depth, key in enumerate(path):
        member = _member(node, path, depth)
        if member is None:
            return _insert(text, node, key, _nested(path[depth + 1 :], value), unit)
        if depth == len(path) - 1:
            return _replace(text, member, value, unit)
        node = member.node
    return text


def drop(text: str, path: Sequence[str], *, prune: bool = False) -> str:
    """Return `text` without the member at `path`; as it is if there is none.

    `prune` also removes objects on the way that would be left with nothing in them, not even a comment.

    Raises:
        BadJson, NotAnObject, TwiceTheSameKey: as `put`.
    """
    if is_blank(text):
        return text
    document = parse(text)
    holders: list[tuple[JsoncNode, Member]] = []
    node = document.root
    for depth in range(len(path)):
        member = _member(node, path, depth)
        if member is None:
            return text
        holders.append((node, member))
        node = member.node
    while prune and len(holders) > 1 and _is_alone(text, *holders[-1]):
        holders.pop()
    return _remove(text, document, *holders[-1])


def _member(node: JsoncNode, path: Sequence[str], depth: int) -> Member | None:
    if node.members is None:
        raise NotAnObject(path[:depth])
    found = [member for member in node.members if member.key == path[depth]]
    if len(found) > 1:
        raise TwiceTheSameKey(path[: depth + 1])
    return found[0] if found else None


def _nested(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


@dataclass(frozen=True, slots=True)
class _Style:
    """How a value is written: over several lines from `indent` on, or, with `indent` None, all in one."""

    line_break: str
    unit: str
    indent: str | None
    tight: bool = False

    def dumps(self, value: object) -> str:
        if self.indent is None:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":") if self.tight else (", ", ": "))
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.line_break + self.indent).join(lines)

    def member(self, key: str, value: object) -> str:
        colon = ":" if self.tight else ": "
        return json.dumps(key, ensure_ascii=False) + colon + self.dumps(value)


def _insert(text: str, node: JsoncNode, key: str, value: object, unit: str) -> str:
    """Put a new member at the end of the object `node`, after its last comment."""
    line_break, outer = _line_break(text), _indent_at(text, node.start)
    if not node.members:
        # The line break after it is ours too, so that removing it knows what to take away again.
        member = _Style(line_break, unit, outer + unit).member(key, value)
        block = line_break + outer + unit + member + line_break + outer
        return text[: node.tail] + block + text[node.tail :]
    last = node.members[-1]
    lead = _lead(text, last.start)
    if _LINE_BREAK.search(lead):
        indent: str | None = _LINE_BREAK.split(lead)[-1]
    else:
        indent = outer + unit if _LINE_BREAK.search(text, node.tail, node.end) else None
    tight = indent is None and not lead
    before = lead if indent is None else line_break + indent
    block = before + _Style(line_break, unit, indent, tight).member(key, value)
    if last.comma is not None:
        return text[: node.tail] + block + "," + text[node.tail :]
    return text[: last.node.end] + "," + text[last.node.end : node.tail] + block + text[node.tail :]


def _replace(text: str, member: Member, value: object, unit: str) -> str:
    lead = _lead(text, member.start)
    old = text[member.node.start : member.node.end]
    several = _LINE_BREAK.search(lead) or _LINE_BREAK.search(old)
    indent = _indent_at(text, member.start) if several else None
    written = _Style(_line_break(text), unit, indent, tight=not lead).dumps(value)
    return text[: member.node.start] + written + text[member.node.end :]


def _remove(text: str, document: JsoncDocument, holder: JsoncNode, member: Member) -> str:
    """Take out the member with the white space before it, its own comma, or as the last one the comma before it."""
    members = holder.members or ()
    place = members.index(member)
    start, end = member.start - len(_lead(text, member.start)), member.node.end
    comma = member.comma
    if comma is None and place:
        comma = members[place - 1].comma
    if comma == end:
        comma, end = None, end + 1
    after_comment = start in document.comment_ends
    if len(members) == 1:
        end = _past_own_line_break(text, end, _indent_at(text, holder.start), after_comment=after_comment)
    if after_comment and not _breaks_at(text, end):
        start = _past_line_break(text, start)  # or the line comment before it would swallow what comes after it
    spans = [(start, end)] if comma is None else sorted([(start, end), (comma, comma + 1)])
    for first, behind in reversed(spans):
        text = text[:first] + text[behind:]
    return text


def _past_own_line_break(text: str, at: int, outer: str, *, after_comment: bool) -> int:
    """Return where the line break ends that `_insert` puts behind the only member of an object."""
    behind = _past_line_break(text, at)
    if behind == at or not text.startswith(outer, behind):
        return at
    behind += len(outer)
    return at if after_comment and not _breaks_at(text, behind) else behind


def _is_alone(text: str, holder: JsoncNode, member: Member) -> bool:
    around = text[holder.start + 1 : member.start] + text[member.node.end : holder.end - 1]
    return not around.replace(",", "").strip(" \t\r\n")


def _breaks_at(text: str, at: int) -> bool:
    return _LINE_BREAK.match(text, at) is not None


def _past_line_break(text: str, at: int) -> int:
    found = _LINE_BREAK.match(text, at)
    return found.end() if found else at


def _lead(text: str, at: int) -> str:
    """Return the white space right before `at`."""
    start = at
    while start and text[start - 1] in " \t\r\n":
        start -= 1
    return text[start:at]


def _indent_at(text: str, at: int) -> str:
    """Return the white space that the line of `at` begins with."""
    line = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    if text.startswith(BOM, line):
        line += 1
    blanks = _BLANKS.match(text, line)
    return blanks.group() if blanks else ""


def _line_break(text: str) -> str:
    found = _LINE_BREAK.search(text)
    return found.group() if found else "\n"


def _unit(text: str, root: JsoncNode) -> str:
    """Return what one more level is indented by, as the document's outermost members show it; else two spaces."""
    for member in root.members or ():
        lead = _lead(text, member.start)
        if _LINE_BREAK.search(lead):
            outer, inner = _indent_at(text, root.start), _LINE_BREAK.split(lead)[-1]
            if inner.startswith(outer) and inner != outer:
                return inner[len(outer) :]
    return "  "


def _named(path: Sequence[str]) -> str:
    return ".".join(path) if path else "the document"
