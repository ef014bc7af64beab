"""Where the blocks of a Markdown text begin and end. Pure.

One pass over the lines, no tree: readers need only the outermost blocks, the headings among them, and which lines are
code. Containers (quotes, list items) are followed inwards only as far as needed to know where they end.

Source: CommonMark 0.31.2, section 3 and appendix "A parsing strategy"; GitHub Flavored Markdown for tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

BlockKind = Literal["heading", "paragraph", "fence", "code", "html", "quote", "list", "table", "break", "comment"]

DEEPEST = 100
"""Nesting depth of containers that is followed. Deeper ones count as text, so that a line of `>>>>` takes linear time."""

# Quantifiers are possessive (`++`, `*+`) wherever a hostile line could make a pattern try the same text again and again.
_RULE = re.compile(r"(?:\*[ ]*){3,}+$|(?:-[ ]*){3,}+$|(?:_[ ]*){3,}+$")
_SETEXT = re.compile(r"(?:=+|-+)[ ]*$")
_FENCE = re.compile(r"`{3,}+(?=[^`]*$)|~{3,}+")
_ITEM = re.compile(r"([-+*])(?= |$)|(\d{1,9})([.)])(?= |$)")
_DEFINITION = re.compile(
    r" {0,3}\[(?=[^\]]*\S)(?:[^\[\]\\]|\\.){1,999}+\]:[ \t]*\n?[ \t]*(?:<[^<>\n]*>|[^\s<]\S*)"
    r"(?:[ \t]*(?:[ \t]|\n)[ \t]*(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?[ \t]*(?:\n|$)"
)
_DELIMITER = re.compile(r"[|:-][|: -]+$")
_COLUMN = re.compile(r":?-+:?$")
_UNESCAPED_PIPE = re.compile(r"(?<!\\)\|")
_HTML_TAGS = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset"
    "|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav"
    "|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
_ATTRIBUTE = r"""(?:\s+[a-zA-Z_:][\w:.-]*+(?:\s*+=\s*+(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?)"""
_HTML: tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...] = (
    (
        re.compile(r"<(?:script|pre|style|textarea)(?=\s|>|$)", re.IGNORECASE),
        re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(rf"</?(?:{_HTML_TAGS})(?=\s|/?>|$)", re.IGNORECASE), None),
)
_HTML_ANY_TAG = re.compile(rf"<(?:[A-Za-z][A-Za-z0-9-]*+{_ATTRIBUTE}*+\s*+/?|/[A-Za-z][A-Za-z0-9-]*+\s*+)>\s*$")
_STARTERS = frozenset(">#`~<=-*_+0123456789|:%")
"""First characters of lines that may begin a block other than a paragraph."""
_PLAIN = (None, "paragraph", "table")


class Block(NamedTuple):
    """Lines `start` up to, not including, `end`, from 0.

    `level` and `text` are those of a heading; `items` are the lines where the items of a list begin.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    text: str = ""
    items: tuple[int, ...] = ()


class Scan(NamedTuple):
    """The outermost blocks in order, and the spans of lines inside quotes and lists that are code or HTML."""

    blocks: list[Block]
    code: list[tuple[int, int]]


def scan(lines: Sequence[str], first: int = 0) -> Scan:
    """Return the blocks of `lines` from line `first` on; the lines have no line ends."""
    return _Scanner(lines).run(first)


@dataclass(slots=True)
class _Container:
    """A quote or a list item. `width` is the indent that keeps a line in the item; a quote has none."""

    marker: str
    width: int = 0
    empty: bool = False


@dataclass(slots=True)
class _Scanner:
    """`outer` is the outermost quote or list that is open, `leaf` the open block that holds text, inside it or outside."""

    lines: Sequence[str]
    blocks: list[Block] = field(default_factory=list)
    code: list[tuple[int, int]] = field(default_factory=list)
    containers: list[_Container] = field(default_factory=list)
    leaf: BlockKind | None = None
    leaf_start: int = 0
    leaf_end: int = 0
    fence: str = ""
    html_end: re.Pattern[str] | None = None
    outer: BlockKind | None = None
    outer_start: int = 0
    outer_end: int = 0
    outer_marker: str = ""
    items: list[int] = field(default_factory=list)
    no_comment_end: bool = False
    """Whether the rest of the text is known to have no `%%`, so that it is searched only once, not for each `%%` line."""
    no_rule: str = ""
    """A character of which the rest of this line is known not to be a rule; "" if nothing is known."""

    def run(self, first: int) -> Scan:
        lines = self.lines
        number, count = first, len(lines)
        while number < count:
            line = lines[number]
            if not self.containers and self.leaf in _PLAIN:
                if not line:
                    self._close_leaf()
                    number += 1
                    continue
                # Most lines begin with a letter, and then they are text: this path makes indexing fast.
                if line[0].isalpha():
                    if self.leaf is None:
                        self._open_leaf("paragraph", number)
                    self.leaf_end = number + 1
                    number += 1
                    continue
                if line.startswith("%%") and (after := self._comment(number)):
                    number = after
                    continue
            self._line(number, line.expandtabs(4) if "\t" in line else line)
            number += 1
        self._close_containers(0)
        self._close_leaf()
        self._close_outer()
        return Scan(self.blocks, self.code)

    def _line(self, number: int, line: str) -> None:
        self.no_rule = ""
        at, matched = self._continue(line)
        begin = _spaces(line, at)
        blank = begin == len(line)
        if matched == len(self.containers) and self._stays_in_code(number, line, at, begin):
            if line.strip():
                self.outer_end = number + 1
            return
        if blank:
            self._close_containers(matched)
            if self.leaf != "code":
                self._close_leaf()
            if self.containers and line.strip():  # a quote's marker with nothing after it is part of the quote
                self.outer_end = number + 1
            return
        self._starts(number, line, at, matched)
        if self.containers:
            self.outer_end = number + 1

    def _continue(self, line: str) -> tuple[int, int]:
        """Return the column after the markers of the open containers that `line` continues, and the number of these."""
        at = 0
        begin = _spaces(line, 0)
        for depth, container in enumerate(self.containers):
            if at > begin:
                begin = _spaces(line, at)
            if not container.width:
                if begin - at > 3 or line[begin : begin + 1] != ">":
                    return at, depth
                at = begin + 1 + (line[begin + 1 : begin + 2] == " ")
            elif begin == len(line):
                if container.empty:  # an item may begin with one blank line, not with two
                    return at, depth
                at = begin
            elif begin - at >= container.width:
                at += container.width
                container.empty = False
            else:
                return at, depth
        return at, len(self.containers)

    def _stays_in_code(self, number: int, line: str, at: int, begin: int) -> bool:
        """Return whether the line belongs to the open fence, HTML or indented code."""
        blank = begin == len(line)
        if self.leaf == "fence":
            self.leaf_end = number + 1
            closes = line.startswith(self.fence, begin) and not line[begin:].rstrip(" ").strip(self.fence[0])
            if begin - at <= 3 and closes:
                self._close_leaf()
            return True
        if self.leaf == "html":
            # The two kinds of HTML without an end of their own go on to the next empty line.
            if self.html_end is None and blank:
                return False
            self.leaf_end = number + 1
            if self.html_end is not None and self.html_end.search(line, at):
                self._close_leaf()
            return True
        if self.leaf != "code":
            return False
        if not blank and begin - at < 4:
            self._close_leaf()
            return False
        # Empty lines belong to the code only if more code follows them.
        if not blank:
            self.leaf_end = number + 1
        return True

    def _starts(self, number: int, line: str, at: int, matched: int) -> None:
        """Open the containers and the block that begin on this line; a line that begins nothing is text."""
        fresh = False
        while True:
            begin = _spaces(line, at)
            if begin == len(line):
                return
            if begin - at >= 4:
                if self.leaf == "paragraph":
                    break
                self._close_containers(matched)
                self._begin_leaf("code", number)
                return
            if line[begin] not in _STARTERS:
                break
            after = self._container_start(number, line, at, begin, matched)
            if after is None:
                if self._leaf_start(number, line, begin, matched, fresh=fresh):
                    return
                break
            at, fresh = after, True
            matched = len(self.containers)
        # Text. A paragraph takes it also without the markers of its containers (a lazy continuation), a table only with them.
        if self.leaf != "paragraph" and (self.leaf != "table" or matched != len(self.containers)):
            self._close_containers(matched)
            self._begin_leaf("paragraph", number)
        self.leaf_end = number + 1

    def _container_start(self, number: int, line: str, at: int, begin: int, matched: int) -> int | None:
        """Open the quote or list item that begins here and return the column after its marker."""
        if len(self.containers) >= DEEPEST:
            return None
        if line[begin] == ">":
            self._open_container(number, _Container(">"), matched)
            return begin + 1 + (line[begin + 1 : begin + 2] == " ")
        found = _ITEM.match(line, begin)
        if not found or self._is_rule(line, begin):
            return None
        end = found.end()
        content = _spaces(line, end)
        empty = content == len(line)
        # Only an item with text, and of a numbered list only number 1, may interrupt a paragraph, and not if its mark underlines that.
        interrupts = self.leaf == "paragraph" and matched == len(self.containers)
        if interrupts and (empty or (found[2] and int(found[2]) != 1) or _SETEXT.match(line, begin)):
            return None
        # After more than four spaces, only one belongs to the marker, and the text is indented code.
        padding = 1 if empty or content - end > 4 else content - end
        self._open_container(number, _Container(found[1] or found[3], end - at + padding, empty), matched)
        return min(end + padding, len(line))

    def _is_rule(self, line: str, begin: int) -> bool:
        """Return whether the rest of the line is a rule; a character that prevents it once prevents it for the whole line."""
        char = line[begin]
        if char == self.no_rule:
            return False
        found = _RULE.match(line, begin) is not None
        # In `* * * * x` each `*` opens an item, and each would search the rest of the line for a rule again.
        if not found and line.count(char, begin, begin + 200) > 2:
            self.no_rule = char
        return found

    def _open_container(self, number: int, container: _Container, matched: int) -> None:
        self._close_containers(matched)
        self._close_leaf()
        if not self.containers:
            kind: BlockKind = "list" if container.width else "quote"
            if self.outer != kind or self.outer_marker != container.marker or kind == "quote":
                self._close_outer()
                self.outer, self.outer_start, self.outer_marker, self.items = kind, number, container.marker, []
            self.items.append(number)
            self.outer_end = number + 1
        self.containers.append(container)

    def _leaf_start(self, number: int, line: str, begin: int, matched: int, *, fresh: bool) -> bool:
        """Open the heading, rule, fence, HTML or table that begins here; return whether one does."""
        char = line[begin]
        in_text = self.leaf == "paragraph" and matched == len(self.containers) and not fresh
        if char == "#":
            return self._atx(number, line, begin, matched)
        if char in "`~":
            if not (fence := _FENCE.match(line, begin)):
                return False
            self._close_containers(matched)
            self._begin_leaf("fence", number)
            self.fence = fence[0]
            return True
        if char == "<":
            kind = next((pair for pair in _HTML if pair[0].match(line, begin)), None)
            # CommonMark's seventh kind, any other tag alone on its line, can't interrupt a paragraph; the first six can.
            if kind is None and (self.leaf == "paragraph" or not _HTML_ANY_TAG.match(line, begin)):
                return False
            self._close_containers(matched)
            self._begin_leaf("html", number)
            self.html_end = kind[1] if kind else None
            if self.html_end and self.html_end.search(line, begin):
                self._close_leaf()
            return True
        if in_text and char in "|:-" and self._table(number, line, begin):
            return True
        # Before the rule: under text, a line of `-` makes it a heading.
        if in_text and char in "=-" and _SETEXT.match(line, begin) and self._setext(number, char):
            return True
        if char in "*-_" and self._is_rule(line, begin):
            self._close_containers(matched)
            self._single("break", number)
            return True
        return False

    def _atx(self, number: int, line: str, begin: int, matched: int) -> bool:
        marks = line[begin : begin + 8]
        after = marks.lstrip("#")
        level = len(marks) - len(after)
        if level > 6 or (after and after[0] != " "):
            return False
        self._close_containers(matched)
        text = self.lines[number].strip(" \t")[level:].strip(" \t") if not self.containers else ""
        bare = text.rstrip("#")
        if bare != text and (not bare or bare[-1] in " \t"):
            text = bare.rstrip(" \t")
        self._single("heading", number, level, text)
        return True

    def _setext(self, number: int, char: str) -> bool:
        """Make the open paragraph a heading, unless it consists of link definitions only."""
        if self.containers:
            self.leaf = None
            return True
        text = "\n".join(self.lines[self.leaf_start : self.leaf_end])
        defined = 0
        while text.startswith((" ", "[")) and (found := _DEFINITION.match(text)):
            defined += text.count("\n", 0, found.end())
            text = text[found.end() :]
            if not text:
                return False
        if defined:
            self.blocks.append(Block("paragraph", self.leaf_start, self.leaf_start + defined))
        words = " ".join(part.strip(" \t") for part in text.split("\n"))
        self.blocks.append(Block("heading", self.leaf_start + defined, number + 1, 1 if char == "=" else 2, words))
        self.leaf = None
        return True

    def _table(self, number: int, line: str, begin: int) -> bool:
        """Turn the last line of the open paragraph into the head of a table, if this line is the row of dashes below it."""
        if not _DELIMITER.match(line, begin) or (line[begin] == "-" and line[begin + 1 : begin + 2] == " "):
            return False
        head = self.lines[number - 1]
        marks = [mark.strip(" ") for mark in line[begin:].split("|")]
        if not marks[0]:
            del marks[0]
        if marks and not marks[-1]:
            del marks[-1]
        if "|" not in head or not marks or not all(map(_COLUMN.match, marks)) or len(marks) != _columns(head):
            return False
        self.leaf_end = number - 1
        if self.leaf_end > self.leaf_start:
            self._close_leaf()
        self.leaf, self.leaf_start, self.leaf_end = "table", number - 1, number + 1
        return True

    def _comment(self, number: int) -> int:
        """Return the line after the Obsidian comment that begins here, or 0; an unclosed comment hides nothing."""
        line = self.lines[number]
        # A comment that ends on its first line is part of a paragraph.
        if line.find("%%", 2) > 0 or self.no_comment_end:
            return 0
        for last in range(number + 1, len(self.lines)):
            if "%%" in self.lines[last]:
                self._close_leaf()
                self._close_outer()
                self.blocks.append(Block("comment", number, last + 1))
                return last + 1
        self.no_comment_end = True
        return 0

    def _begin_leaf(self, kind: BlockKind, number: int) -> None:
        self._close_leaf()
        self._open_leaf(kind, number)

    def _open_leaf(self, kind: BlockKind, number: int) -> None:
        if not self.containers:
            self._close_outer()
        self.leaf, self.leaf_start, self.leaf_end = kind, number, number + 1

    def _close_leaf(self) -> None:
        if self.leaf is None:
            return
        if not self.containers:
            self.blocks.append(Block(self.leaf, self.leaf_start, self.leaf_end))
        elif self.leaf in ("fence", "code", "html"):
            self.code.append((self.leaf_start, self.leaf_end))
        self.leaf = None

    def _single(self, kind: BlockKind, number: int, level: int = 0, text: str = "") -> None:
        """Add a block of one line."""
        self._close_leaf()
        if not self.containers:
            self._close_outer()
            self.blocks.append(Block(kind, number, number + 1, level, text))

    def _close_containers(self, keep: int) -> None:
        if keep < len(self.containers):
            self._close_leaf()
            del self.containers[keep:]

    def _close_outer(self) -> None:
        if self.outer is not None:
            self.blocks.append(Block(self.outer, self.outer_start, self.outer_end, items=tuple(self.items)))
            self.outer = None


def _spaces(line: str, at: int) -> int:
    """Return the index of the first character from `at` on that is not a space."""
    while line.startswith("        ", at):
        at += 8
    while line.startswith(" ", at):
        at += 1
    return at


def _columns(row: str) -> int:
    cells = _UNESCAPED_PIPE.split(row.strip(" \t"))
    return len(cells) - (not cells[0].strip()) - (len(cells) > 1 and not cells[-1].strip())
