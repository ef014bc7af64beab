"""Sets and removes one member of a JSON text; everything else stays the same, byte for byte. Pure.

Two laws (tests/unit/hosts/test_json_edit.py): `drop(put(x, path, v), path) == x` if nothing was at `path` and the object around it
existed; with `prune=True` also if that object did not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from knowledge.errors import KnowledgeError
from mcp_server.hosts.jsonc import BOM, SPACE, JsoncDocument, JsoncNode, Member, is_blank, parse

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


class NotAnObject(KnowledgeError):
    """A value on the way to the member is not an object; `path` says which, empty for the whole document."""

    def __init__(self, path: Sequence[str]) -> None:
        self.path = tuple(path)
        super().__init__(f"{'.'.join(path) or 'the document'} is not an object in {{braces}}")


class TwiceTheSameKey(KnowledgeError):
    """A key on the way to the member occurs twice in its object, and hosts differ in which one they use."""

    def __init__(self, path: Sequence[str]) -> None:
        self.path = tuple(path)
        super().__init__(f"{'.'.join(path)} occurs twice; remove one of them")


def members(text: str, path: Sequence[str]) -> dict[str, object]:
    """Return the members of the object at `path`, the last one of a repeated key; empty if there is no such object.

    Raises:
        BadJson, NotAnObject, TwiceTheSameKey: as `put` into that object.
    """
    if is_blank(text):
        return {}
    document = parse(text)
    node = document.root
    for depth in range(len(path)):
        member = _member(document, node, path, depth)
        if member is None:
            return {}
        node = member.node
    if not isinstance(node.value, dict):
        raise NotAnObject(path)
    return dict(node.value)


def put(text: str, path: Sequence[str], value: object) -> str:
    """Return `text` with `value` at `path`, in the text's own style; missing objects on the way are created.

    Raises:
        BadJson: `text` is not JSON.
        NotAnObject: a value on the way is not an object.
        TwiceTheSameKey: a key on the way is not unique.
    """
    if is_blank(text):
        written = json.dumps(_nested(path, value), indent=2, ensure_ascii=False)
        return (BOM if text.startswith(BOM) else "") + written + "\n"
    document = parse(text)
    node = document.root
    for depth, key in enumerate(path):
        member = _member(document, node, path, depth)
        if member is None:
            return _insert(text, document, node, key, _nested(path[depth + 1 :], value))
        if depth == len(path) - 1:
            return _replace(text, document, member, value)
        node = member.node
    return text


def drop(text: str, path: Sequence[str], *, prune: bool = False) -> str:
    """Return `text` without the member at `path`, unchanged if there is no such member.

    `prune` also removes objects on the way that would be left empty, without even a comment.

    Raises:
        BadJson, NotAnObject, TwiceTheSameKey: as `put`.
    """
    if is_blank(text):
        return text
    document = parse(text)
    holders: list[tuple[JsoncNode, Member]] = []
    node = document.root
    for depth in range(len(path)):
        member = _member(document, node, path, depth)
        if member is None:
            return text
        holders.append((node, member))
        node = member.node
    while prune and len(holders) > 1:
        holder, member = holders[-1]
        around = text[holder.start + 1 : member.start] + text[member.node.end : holder.end - 1]
        if around.replace(",", "").strip(SPACE):
            break
        holders.pop()
    return _remove(text, document, *holders[-1])


def _member(document: JsoncDocument, node: JsoncNode, path: Sequence[str], depth: int) -> Member | None:
    found = document.members(node)
    if found is None:
        raise NotAnObject(path[:depth])
    found = [member for member in found if member.key == path[depth]]
    if len(found) > 1:
        raise TwiceTheSameKey(path[: depth + 1])
    return found[0] if found else None


def _nested(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _insert(text: str, document: JsoncDocument, node: JsoncNode, key: str, value: object) -> str:
    """Put a new member at the end of the object `node`, after its last comment."""
    line_break, unit, outer = _line_break(text), _unit(text, document), _indent_at(text, node.start)
    tail, existing = document.tail(node), document.members(node)
    if not existing:
        # The line break after the member is ours too: `_remove` takes it away again.
        member = f"{json.dumps(key, ensure_ascii=False)}: {_dumps(value, line_break, unit, outer + unit)}"
        return text[:tail] + line_break + outer + unit + member + line_break + outer + text[tail:]
    last = existing[-1]
    lead = _lead(text, last.start)
    indent: str | None = None
    if _LINE_BREAK.search(lead):
        indent = _LINE_BREAK.split(lead)[-1]
    elif _LINE_BREAK.search(text, tail, node.end):
        indent = outer + unit
    tight = indent is None and not lead
    colon = ":" if tight else ": "
    written = json.dumps(key, ensure_ascii=False) + colon + _dumps(value, line_break, unit, indent, tight=tight)
    block = (lead if indent is None else line_break + indent) + written
    if last.comma is not None:  # the file's owner ends lists with a comma
        return text[:tail] + block + "," + text[tail:]
    return text[: last.node.end] + "," + text[last.node.end : tail] + block + text[tail:]


def _replace(text: str, document: JsoncDocument, member: Member, value: object) -> str:
    lead = _lead(text, member.start)
    several_lines = _LINE_BREAK.search(lead) or _LINE_BREAK.search(text, member.node.start, member.node.end)
    indent = _indent_at(text, member.start) if several_lines else None
    written = _dumps(value, _line_break(text), _unit(text, document), indent, tight=not lead)
    return text[: member.node.start] + written + text[member.node.end :]


def _remove(text: str, document: JsoncDocument, holder: JsoncNode, member: Member) -> str:
    """Remove the member with the white space before it and its comma; the last member takes the comma before it."""
    siblings = document.members(holder) or []
    place = siblings.index(member)
    start, end = member.start - len(_lead(text, member.start)), member.node.end
    comma = member.comma
    if comma is None and place:
        comma = siblings[place - 1].comma
    if comma == end:
        comma, end = None, end + 1
    after_comment = start in document.line_ends
    if len(siblings) == 1:
        # Also remove the line break that `_insert` puts after an only member, and the indentation of the closing brace.
        behind, outer = _past_line_break(text, end), _indent_at(text, holder.start)
        if behind != end and text.startswith(outer, behind):
            behind += len(outer)
            if not after_comment or _LINE_BREAK.match(text, behind):
                end = behind
    if after_comment and not _LINE_BREAK.match(text, end):
        start = _past_line_break(text, start)  # otherwise the line comment would swallow the text after the member
    spans = [(start, end)] if comma is None else sorted([(start, end), (comma, comma + 1)])
    for first, behind in reversed(spans):
        text = text[:first] + text[behind:]
    return text


def _dumps(value: object, line_break: str, unit: str, indent: str | None, *, tight: bool = False) -> str:
    """Return the value as JSON: on several lines with that indentation, or on one line without one."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if tight else (", ", ": "))
    return (line_break + indent).join(json.dumps(value, ensure_ascii=False, indent=unit).split("\n"))


def _past_line_break(text: str, at: int) -> int:
    found = _LINE_BREAK.match(text, at)
    return found.end() if found else at


def _lead(text: str, at: int) -> str:
    """Return the white space right before `at`."""
    start = at
    while start and text[start - 1] in SPACE:
        start -= 1
    return text[start:at]


def _indent_at(text: str, at: int) -> str:
    """Return the white space at the beginning of the line of `at`."""
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    if text.startswith(BOM, start):
        start += 1
    end = start
    while text.startswith((" ", "\t"), end):
        end += 1
    return text[start:end]


def _line_break(text: str) -> str:
    found = _LINE_BREAK.search(text)
    return found.group() if found else "\n"


def _unit(text: str, document: JsoncDocument) -> str:
    """Return the indentation of one level, as the document's outermost members show it; else two spaces."""
    outer = _indent_at(text, document.root.start)
    for member in document.members(document.root) or ():
        lead = _lead(text, member.start)
        if _LINE_BREAK.search(lead):
            inner = _LINE_BREAK.split(lead)[-1]
            if inner.startswith(outer) and inner != outer:
                return inner[len(outer) :]
    return "  "
