"""Finds the references of a page to others: every link, image and embed with its exact place. Pure, and linear in the length.

This is our own reader, because links are rewritten byte by byte when a page moves, and no parser gives the exact
places. markdown-it-py, which the tests compare this reader with, gives no places inside a line; pyromark gives no place
of the path inside a link (kb/decisions/0051).

Source: CommonMark 0.31.2, sections 4.7, 6.3 and 6.4 and the appendix "A parsing strategy"; GitHub Flavored Markdown for
tables; Obsidian for wiki links.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple

from knowledge.merge.document.units import BOM, bare, split_lines
from knowledge.pages.front_matter import read_front_matter
from knowledge.pages.links import LinkForm, path_length, unescaped_path
from knowledge.pages.markdown.blocks import scan
from knowledge.pages.paths import is_markdown

DEEPEST = 12
"""Nesting depth to which quotes and lists are searched."""
REMEMBERED_CHARACTERS = 500_000
"""The links of longer pages are not cached."""
MOST_PARENTHESES = 32
"""Nested parentheses in a target; one with more is not a target (CommonMark asks for at least 32)."""

_TOKEN = re.compile(r"\\.|`+|<|!?\[|\]", re.DOTALL)
_WIKI = re.compile(r"\[\[([^\[\]\n|]++)(?:\|[^\[\]\n]*+)?\]\]")
_IN_FRONT_MATTER = re.compile(r"(?<=[\"'])!?\[\[([^\[\]\n|]++)(?:\|[^\[\]\n]*+)?\]\]")
_WEB = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_AUTOLINK = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\x00-\x20]*+>")
# Without brackets: in `<[x](y.md)b.md>` CommonMark sees a link to y.md and two angle brackets.
_AUTO_PAGE = re.compile(r"<(([^<>\s#\[\]]++)(?:#[^<>\s\[\]]*+)?)>")
_ATTRIBUTE = r"""(?:\s+[a-zA-Z_:][\w:.-]*+(?:\s*+=\s*+(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?)"""
_TAG = re.compile(rf"<(?:[A-Za-z][A-Za-z0-9-]*+{_ATTRIBUTE}*+\s*+/?|/[A-Za-z][A-Za-z0-9-]*+\s*+)>")
_ADDRESS = re.compile(r"""\s(?:href|src)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""", re.IGNORECASE)
_UNREAD_HTML = re.compile(r" {0,3}<(?:script|style|textarea)(?=\s|>|$)", re.IGNORECASE)
_HTML_TOKEN = re.compile(r"<!--|<[A-Za-z/]")
_BRACKETED = re.compile(r"<((?:\\.|[^<>\\\n])*+)>")
_BARE = re.compile(r"(?:\\[!-/:-@\[-`{-~]|[^\s()\\\x00-\x1f\x7f])++|\\")
_TITLE = re.compile(r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|\((?:\\.|[^()\\])*+\)", re.DOTALL)
_BLANKS = re.compile(r"[ \t\n]*+")
_DEFINED = re.compile(r" {0,3}\[(?!\^)((?:[^\[\]\\]|\\.){1,999})\]:[ \t]*+\n?[ \t]*+", re.DOTALL)
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999})\]", re.DOTALL)
_PIPE = re.compile(r"(?<!\\)\|")
_ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)")
_QUOTE = re.compile(r" {0,3}>[ \t]?")


class LinkSpan(NamedTuple):
    """A reference to another file, from `start` up to `end`; within it, its path is written from `at` up to `to`.

    `path` is that path without escapes; `anchor` is the rest of the target, `#` or `?` included, as written. `bracketed` says
    that the target is between angle brackets, where it may hold blanks.
    """

    form: LinkForm
    start: int
    end: int
    at: int
    to: int
    path: str
    anchor: str
    bracketed: bool = False

    @property
    def wiki(self) -> bool:
        """Whether it is written `[[like this]]`."""
        return self.form in ("wiki", "embed")


class _FoundLink(NamedTuple):
    """A link, by offsets in its leaf's text: `start` to `end` is the whole link, `at` to `to` its target without brackets."""

    form: LinkForm
    start: int
    end: int
    at: int
    to: int


class _Lines(NamedTuple):
    """Lines without their ends, and where each begins in the page."""

    texts: Sequence[str]
    starts: Sequence[int]

    def part(self, first: int, last: int) -> _Lines:
        return _Lines(self.texts[first:last], self.starts[first:last])

    def shifted(self, widths: Sequence[int]) -> _Lines:
        """Return the lines, each without as many leading characters as its width."""
        texts = [line[width:] for line, width in zip(self.texts, widths, strict=True)]
        return _Lines(texts, [start + width for start, width in zip(self.starts, widths, strict=True)])

    def worth_reading(self) -> bool:
        return any("[" in line or "<" in line for line in self.texts)


class _Leaf(NamedTuple):
    """A stretch of text whose links are parsed together. Only a paragraph may begin with link definitions (`[label]: target`)."""

    lines: _Lines
    kind: Literal["paragraph", "heading", "cell", "html"]


def links_in(text: str) -> list[LinkSpan]:
    """Return every reference to another file, in order.

    References to the web or within the page, in code or in comments are left out.
    """
    if not any(mark in text for mark in ("](", "[[", "]:", "<")):
        return []
    return list(_remembered(text) if len(text) <= REMEMBERED_CHARACTERS else _found_in(text))


def _found_in(text: str) -> tuple[LinkSpan, ...]:
    lines = _lines(text)
    body = read_front_matter(lines.texts).body
    found = list(_front_links(text, lines, body))
    leaves = list(_leaves(lines.part(body, len(lines.texts)), 0))
    read = [(leaf, *_definitions(leaf)) for leaf in leaves]
    labels = {label for _, _, names, _ in read for label in names}
    for leaf, own, _, defined in read:
        begin = defined[-1].end if defined else 0
        inline = _html_links(own) if leaf.kind == "html" else _InlineReader(own, labels).links(begin)
        found += [link for one in (*defined, *inline) if (link := _placed(one, own, leaf.lines, text))]
    return tuple(sorted(found, key=lambda link: link.start))


# The page is read after a write to verify it, and again before the next write.
_remembered = lru_cache(maxsize=8)(_found_in)


def _placed(found: _FoundLink, body: str, lines: _Lines, text: str) -> LinkSpan | None:
    """Convert the positions of a link from its own text to the whole page; None unless it leads to another file."""
    written = body[found.at : found.to]
    wiki = found.form in ("wiki", "embed")
    if (_WEB.match(written) and (not wiki or "://" in written)) or "\n" in written:
        return None
    length = path_length(written, wiki=wiki)
    path = unescaped_path(written[:length], found.form)
    if not path.strip():
        return None
    offsets = list(accumulate((len(line) + 1 for line in lines.texts[:-1]), initial=0))

    def there(place: int) -> int:
        row = bisect_right(offsets, place) - 1
        return lines.starts[row] + place - offsets[row]

    begin = len(written) - len(written.lstrip()) if wiki else 0
    at = there(found.at) + begin
    # The lines of a leaf were cut out of quotes and items: only a target that is in one piece on the page is a link there.
    if text[at : at + length - begin] != written[begin:length]:
        return None
    anchor = written[length:].removesuffix("\\") if wiki else written[length:]
    bracketed = found.form in ("inline", "image", "definition") and body.startswith("<", found.at - 1)
    end = there(found.end - 1) + 1
    return LinkSpan(found.form, there(found.start), end, at, at + length - begin, path, anchor, bracketed)


# Leaves: the texts of a page that are read as one


def _lines(text: str) -> _Lines:
    begin = len(BOM) if text.startswith(BOM) else 0
    lines = split_lines(text[begin:])
    return _Lines([bare(line) for line in lines], [*accumulate(map(len, lines[:-1]), initial=begin)])


def _front_links(text: str, lines: _Lines, body: int) -> Iterator[LinkSpan]:
    """Yield the wiki links in quotes in the front matter: without quotes YAML reads them as lists."""
    for line, start in zip(lines.texts[:body], lines.starts, strict=False):
        for match in _IN_FRONT_MATTER.finditer(line) if "[[" in line else ():
            form: LinkForm = "embed" if match[0].startswith("!") else "wiki"
            found = _FoundLink(form, match.start(), match.end(), *match.span(1))
            if link := _placed(found, line, _Lines([line], [start]), text):
                yield link


def _leaves(lines: _Lines, depth: int) -> Iterator[_Leaf]:
    for block in scan(lines.texts).blocks:
        inside = lines.part(block.start, block.end)
        if block.kind in ("fence", "code", "comment", "break") or not inside.worth_reading():
            continue
        if block.kind == "html":
            if not _UNREAD_HTML.match(inside.texts[0]):
                yield _Leaf(inside, "html")
        elif block.kind == "table":
            yield from _cells(inside)
        elif block.kind == "quote" and depth < DEEPEST:
            # A line without a mark continues the last paragraph of the quote.
            widths = [match.end() if (match := _QUOTE.match(line)) else 0 for line in inside.texts]
            yield from _leaves(inside.shifted(widths), depth + 1)
        elif block.kind == "list" and depth < DEEPEST:
            for first, last in zip(block.items, (*block.items[1:], block.end), strict=True):
                item = lines.part(first, last)
                if item.worth_reading():
                    yield from _leaves(item.shifted(_item_widths(item.texts)), depth + 1)
        else:
            yield _Leaf(inside, "heading" if block.kind == "heading" else "paragraph")


def _cells(lines: _Lines) -> Iterator[_Leaf]:
    for line, start in zip(lines.texts, lines.starts, strict=True):
        at = 0
        for bar in (*_PIPE.finditer(line), None):
            end = bar.start() if bar else len(line)
            yield _Leaf(_Lines([line[at:end]], [start + at]), "cell")
            at = end + 1


def _item_widths(texts: Sequence[str]) -> list[int]:
    """Return how many characters at the beginning of each line are the item's mark or the indent under it."""
    mark = _ITEM.match(texts[0])
    if not mark:
        return [0] * len(texts)
    rest = texts[0][mark.end() :]
    padding = _columns(rest[: len(rest) - len(rest.lstrip(" \t"))], mark.end())
    if not rest.strip(" \t") or padding > 4:
        padding = 1
    width = mark.end() + padding
    widths = [min(len(texts[0]), mark.end() + _characters(rest, padding, mark.end()))]
    for line in texts[1:]:
        indent = len(line) - len(line.lstrip(" \t"))
        deep = _columns(line[:indent], 0) >= width
        widths.append(_characters(line, width, 0) if deep else indent if indent == len(line) else 0)
    return widths


def _columns(blanks: str, begin: int) -> int:
    """Return how many columns `blanks` fill if they begin in column `begin`; a tab extends to the next multiple of 4."""
    return len((" " * begin + blanks).expandtabs(4)) - begin


def _characters(line: str, columns: int, begin: int) -> int:
    """Return how many characters of white space at the beginning of `line` fill that many columns."""
    column, count = begin, 0
    while column < begin + columns and count < len(line) and line[count] in " \t":
        column = column + 4 - column % 4 if line[count] == "\t" else column + 1
        count += 1
    return count


def _definitions(leaf: _Leaf) -> tuple[str, list[str], list[_FoundLink]]:
    """Return a leaf's text, and the link definitions that it begins with: their labels, and their targets."""
    body = "\n".join(leaf.lines.texts)
    labels: list[str] = []
    found: list[_FoundLink] = []
    at = 0
    while leaf.kind == "paragraph" and (head := _DEFINED.match(body, at)) and head[1].strip():
        target = _target(body, head.end())
        if target is None or target == (head.end(), head.end()):
            break
        stop = _definition_end(body, target[1] + body.startswith(">", target[1]))
        if stop is None:
            break
        labels.append(_folded_label(head[1]))
        found.append(_FoundLink("definition", at, stop, *target))
        at = stop + 1
    return body, labels, found


def _definition_end(body: str, after: int) -> int | None:
    """Return where a link definition ends: after its target, which ends at `after`, and its title, if it has one.

    None if other text follows on the same line: then this is no definition.
    """
    begin = _after_blanks(body, after)
    title = _TITLE.match(body, begin) if begin > after else None
    if title and body.count("\n", after, begin) <= 1:
        stop = _line_end(body, title.end())
        if not body[title.end() : stop].strip(" \t"):
            return stop
    stop = _line_end(body, after)
    return stop if not body[after:stop].strip(" \t") else None


def _line_end(body: str, at: int) -> int:
    end = body.find("\n", at)
    return end if end >= 0 else len(body)


def _after_blanks(body: str, at: int) -> int:
    blanks = _BLANKS.match(body, at)
    return blanks.end() if blanks else at


def _folded_label(written: str) -> str:
    return " ".join(written.split()).casefold()


def _target(body: str, at: int) -> tuple[int, int] | None:
    """Return the span of the target that begins at `at`, without its angle brackets, or None."""
    if body.startswith("<", at):
        bracketed = _BRACKETED.match(body, at)
        return bracketed.span(1) if bracketed else None
    end, depth = at, 0
    while end < len(body):
        char = body[end]
        if char == "(":
            depth += 1
            if depth > MOST_PARENTHESES:
                return None
        elif char == ")":
            if not depth:
                break
            depth -= 1
        elif more := _BARE.match(body, end):
            end = more.end()
            continue
        else:
            break
        end += 1
    return None if depth else (at, end)


def _inline_target(body: str, at: int) -> tuple[int, int, int] | None:
    """Return the span of the target in `(target "title")`, which begins at `at`, and the end of the whole."""
    if not body.startswith("(", at):
        return None
    begin = _after_blanks(body, at + 1)
    target = _target(body, begin)
    if target is None:
        return None
    after = target[1] + body.startswith("<", begin)
    end = _after_blanks(body, after)
    if end > after and (title := _TITLE.match(body, end)):
        end = _after_blanks(body, title.end())
    return (*target, end + 1) if body.startswith(")", end) else None


# Links in a leaf


class _InlineReader:
    """One pass over the signs of a leaf: code and HTML first, then brackets from the inside out.

    `labels` are the labels for which the page has a link definition.
    """

    def __init__(self, body: str, labels: set[str]) -> None:
        self._body, self._labels = body, labels
        self._tick_runs: dict[int, list[int]] = {}
        for run in re.finditer(r"`+", body) if "`" in body else ():
            self._tick_runs.setdefault(run.end() - run.start(), []).append(run.start())
        self._openers: list[tuple[int, bool]] = []
        self._closed = 0  # openers below it are before a found link: as a link holds no other, they begin none
        self._no_comment_end = False

    def links(self, at: int) -> Iterator[_FoundLink]:
        """Yield the links of the leaf from `at` on."""
        if not any(mark in self._body for mark in ("](", "[[", "<")):
            return
        while token := _TOKEN.search(self._body, at):
            start, at, mark = token.start(), token.end(), token[0]
            if mark[0] == "`":
                at = self._after_code(at, len(mark))
            elif mark == "<":
                found, at = self._angle(start)
                yield from found
            elif mark in ("]", "[", "!["):
                link, at = self._close(start) if mark == "]" else self._open(start, at)
                if link:
                    yield link

    def _after_code(self, end: int, length: int) -> int:
        """Return the end of the code span whose opening ticks end at `end`; `end` itself if nothing closes it."""
        # An escaped tick in front of a run leaves a shorter one, which may be the only one of its length.
        starts = self._tick_runs.get(length, [])
        index = bisect_right(starts, end)
        return starts[index] + length if index < len(starts) else end

    def _angle(self, at: int) -> tuple[list[_FoundLink], int]:
        """Return the links of the autolink, tag or comment that begins at `at`, and where it ends."""
        if self._body.startswith("<!--", at) and not self._no_comment_end:
            end = self._body.find("-->", at + 2)
            # Remembered, because thousands of unclosed `<!--` would each search to the end of the text.
            self._no_comment_end = end < 0
            return [], at + 1 if end < 0 else end + 3
        if auto := _AUTOLINK.match(self._body, at):
            return [], auto.end()
        if (page := _AUTO_PAGE.match(self._body, at)) and is_markdown(page[2]):
            return [_FoundLink("auto", *page.span(), *page.span(1))], page.end()
        if tag := _TAG.match(self._body, at):
            return list(_addresses(self._body, tag)), tag.end()
        return [], at + 1

    def _open(self, start: int, after: int) -> tuple[_FoundLink | None, int]:
        image = after - start == 2
        wiki = _WIKI.match(self._body, after - 1) if self._body.startswith("[", after) else None
        # `[[1]](page.md)` is a link whose words are `[1]`.
        if wiki and _inline_target(self._body, wiki.end()) is None:
            return _FoundLink("embed" if image else "wiki", start, wiki.end(), *wiki.span(1)), wiki.end()
        self._openers.append((start, image))
        return None, after

    def _close(self, at: int) -> tuple[_FoundLink | None, int]:
        if not self._openers:
            return None, at + 1
        index = len(self._openers) - 1
        start, image = self._openers.pop()
        inactive = not image and index < self._closed
        self._closed = min(self._closed, index)
        if inactive:
            return None, at + 1
        target = _inline_target(self._body, at + 1)
        after = target[2] if target else self._reference_end(start + 1 + image, at)
        if not after:
            return None, at + 1
        if not image:
            self._closed = index
        found = _FoundLink("image" if image else "inline", start, after, *target[:2]) if target else None
        return found, after

    def _reference_end(self, begin: int, end: int) -> int:
        """Return where the reference link whose label is at `begin` up to `end` ends; 0 if it is not one."""
        if not self._labels:
            return 0
        label = _LABEL.match(self._body, end + 1)
        if label and label[1].strip():
            return label.end() if _folded_label(label[1]) in self._labels else 0
        if _folded_label(self._body[begin:end][:1000]) not in self._labels:
            return 0
        return label.end() if label else end + 1


def _addresses(body: str, tag: re.Match[str]) -> Iterator[_FoundLink]:
    for found in _ADDRESS.finditer(body, tag.start(), tag.end()):
        yield _FoundLink("html", *tag.span(), *found.span(1 if found[1] is not None else 2))


def _html_links(body: str) -> Iterator[_FoundLink]:
    at = 0
    while token := _HTML_TOKEN.search(body, at):
        at = token.end()
        if token[0] == "<!--":
            end = body.find("-->", at)
            if end < 0:
                return
            at = end + 3
        elif tag := _TAG.match(body, token.start()):
            yield from _addresses(body, tag)
            at = tag.end()
