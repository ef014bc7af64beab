"""Reads JSON as editors write it: with comments, trailing commas and a byte order mark. Pure.

Python's own decoder does the reading. It gets a copy of the text in which comments and trailing commas are blanked out, character
by character, so every position in the copy is the same place in the text and `json_edit.py` can change one member and not a byte
beside it. Packages that edit JSON with comments were tried: they rewrite the whole file, or need Node.
Source: RFC 8259; comments and trailing commas as in Microsoft's jsonc-parser, which VS Code and its descendants use.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from knowledge.errors import KnowledgeError

BOM = "\ufeff"
SPACE = " \t\r\n"
# Python's decoder recurses, so deep nesting would be a RecursionError instead of a message with a line and a column.
DEEPEST = 200

_TOKEN = re.compile(
    r'(?P<text>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")|(?P<comment>//[^\r\n]*|/\*.*?\*/)|["/{}\[\],]|NaN|Infinity',
    re.DOTALL,
)
_REFUSED = {
    '"': "a string that does not end, or has a control character",
    "/": "a comment that does not end, or a stray '/'",
    "NaN": "NaN is not a JSON value",
    "Infinity": "Infinity is not a JSON value",
}
_BLANKS = re.compile(f"[{SPACE}]*")
_LONGEST_NUMBER = 4000  # digits; Python's own limit is 4,300


class BadJson(KnowledgeError):
    """A text that is neither JSON nor JSON with comments; lines and columns count from 1."""

    def __init__(self, text: str, at: int, problem: str) -> None:
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        self.line = before.count("\n") + 1
        self.column = len(before) - (before.rfind("\n") + 1) + 1
        self.problem = problem
        super().__init__(f"not valid JSON at line {self.line}, column {self.column}: {problem}")


@dataclass(frozen=True, slots=True)
class JsoncNode:
    """A value, and where it begins and ends in the text."""

    start: int
    end: int
    value: object


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object; `comma` is the position of the comma after it, if there is one."""

    key: str
    start: int
    node: JsoncNode
    comma: int | None


@dataclass(frozen=True, slots=True)
class JsoncDocument:
    """A parsed text.

    `uncommented` is the text without its comments, `strict` also without trailing commas; both are as long as the text.
    `comment_ends` are the ends of all comments, `line_ends` those of `//` comments, after which only a line break may
    come.
    """

    root: JsoncNode
    uncommented: str
    strict: str
    comment_ends: tuple[int, ...]
    line_ends: frozenset[int]

    def members(self, node: JsoncNode) -> list[Member] | None:
        """Return the members of an object as written, even two with the same key; None if the value is not an object."""
        if not isinstance(node.value, dict):
            return None
        members = list[Member]()
        at = self._next(node.start + 1)
        while self.uncommented[at] != "}":
            key, colon = _DECODER.raw_decode(self.strict, at)
            start = self._next(self._next(colon) + 1)
            value, end = _DECODER.raw_decode(self.strict, start)
            after = self._next(end)
            comma = after if self.uncommented[after] == "," else None
            members.append(Member(key, at, JsoncNode(start, end, value), comma))
            at = after if comma is None else self._next(after + 1)
        return members

    def tail(self, node: JsoncNode) -> int:
        """Return the end of the last token inside an object, commas and comments included; only white space follows it."""
        closing = node.end - 1
        last = len(self.uncommented[:closing].rstrip(SPACE))
        before = bisect_right(self.comment_ends, closing)
        return max(last, self.comment_ends[before - 1]) if before else last

    def _next(self, at: int) -> int:
        blanks = _BLANKS.match(self.uncommented, at)
        return blanks.end() if blanks else at


@lru_cache(maxsize=2)  # one edit parses the same text several times, and Claude Code's can have megabytes
def parse(text: str) -> JsoncDocument:
    """Return the parsed `text` with the positions of its parts. The result is shared between callers: do not change the values in it.

    Raises:
        BadJson: it is not JSON, not even with comments and trailing commas, or nested deeper than `DEEPEST`.
    """
    comments, trailing = _extras(text)
    uncommented = _blanked(text, comments)
    strict = _blanked(uncommented, [(comma, comma + 1) for comma in trailing])
    begin = 1 if text.startswith(BOM) else 0
    start = len(text) - len(strict[begin:].lstrip(SPACE))
    try:
        value, end = _DECODER.raw_decode(strict, start)
    except json.JSONDecodeError as error:
        raise BadJson(text, error.pos, error.msg[:1].lower() + error.msg[1:]) from error
    if rest := strict[end:].lstrip(SPACE):
        raise BadJson(text, len(text) - len(rest), "something follows after the end")
    line_ends = frozenset(end for start, end in comments if text.startswith("//", start))
    return JsoncDocument(
        JsoncNode(start, end, value), uncommented, strict, tuple(end for _, end in comments), line_ends
    )


def is_blank(text: str) -> bool:
    """Return whether `text` is only white space, like the empty file that some hosts create."""
    return not text.removeprefix(BOM).strip(SPACE)


def _extras(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the positions of comments and trailing commas; raise BadJson for text that must not reach a decoder."""
    comments, trailing = list[tuple[int, int]](), list[int]()
    comma: int | None = None
    follows_value, depth, last = False, 0, 0
    for found in _TOKEN.finditer(text):
        lexeme, start, end = found.group(), found.start(), found.end()
        if lexeme in _REFUSED:
            raise BadJson(text, start, _REFUSED[lexeme])
        if text[last:start].strip(SPACE):  # a number or a word: the decoder knows which of them are values
            comma, follows_value = None, True
        last = end
        if found.lastgroup == "comment":
            comments.append((start, end))
        elif lexeme == ",":
            comma = start if follows_value and comma is None else None
        elif lexeme in "]}":
            depth -= 1
            if comma is not None:
                trailing.append(comma)
            comma, follows_value = None, True
        elif lexeme in "[{":
            depth += 1
            if depth > DEEPEST:
                raise BadJson(text, start, f"nested deeper than {DEEPEST}")
            comma, follows_value = None, False
        else:
            comma, follows_value = None, True
    return comments, trailing


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, last = list[str](), 0
    for start, end in spans:
        pieces += [text[last:start], " " * (end - start)]
        last = end
    return "".join([*pieces, text[last:]])


def _whole_number(digits: str) -> float:
    # Python refuses to read longer integers, but hosts start with them, because they read them as floating point.
    return float(digits) if len(digits) > _LONGEST_NUMBER else int(digits)


_DECODER = json.JSONDecoder(parse_int=_whole_number)
