"""Cuts a document into chunks, the pieces that search ranks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.pages.document import Document
from knowledge.pages.markdown.blocks import Block, scan
from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.paths import HEADING_SEPARATOR

TARGET = 1200
"""Characters after which a chunk ends at the next block."""
MOST = 4000
"""The most characters of a chunk. A fence, a table or an HTML block up to this length is never cut; a longer one is cut between
its lines, because words in a very long chunk count almost nothing."""
SHORTEST_PART = 200
"""The fewest characters of a part of a long fence, table or HTML block."""
_UNCUT = frozenset({"fence", "code", "table", "html", "comment"})
_ANCHORS = re.compile(r"(?:<a\b[^<>]*>\s*(?:</a>)?\s*)+", re.IGNORECASE)
_DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\[\]]{1,200}\]:\s*\S+(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*")
"""A line that says where a link leads: `[docs]: https://docs.example "Docs"`. It is not shown to readers. Not a footnote."""
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*[ \t]+|[\u3002\uff01\uff1f]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of whole blocks under one heading.

    `section` is the heading path, outermost first, `()` before the first heading; lines count from 1 in the file,
    both ends included; `text` is those lines unchanged. A single line longer than `MOST` becomes several chunks,
    each with a part of it.
    """

    ordinal: int
    section: tuple[str, ...]
    line_start: int
    line_end: int
    text: str


def indexed_text(title: str, section: tuple[str, ...], text: str) -> str:
    """Return the text of a chunk to embed and search: the page's title if no heading above says it, the heading path, the text.

    In many notes the title is only in the front matter, or the file's name.
    """
    says_title = not title or (bool(section) and title in (section[0], without_attributes(section[0])))
    headings = section if says_title else (title, *section)
    return HEADING_SEPARATOR.join(headings) + "\n" + text if headings else text


def cut(document: Document) -> list[Chunk]:
    """Return the chunks of `document` in order.

    Every line of the body that is not blank is in one chunk; link definitions (`[docs]: https://docs.example`) after the last text
    of a chunk are in none, because readers don't see them. Fences, tables, HTML and list items stay whole up to `MOST`. A
    heading with no text below it, or only a place to link to (`<a id="x"></a>`), is joined to the text that follows, under that text's
    section.
    A document with front matter only is one chunk of its title and summary.
    """
    lines = document.text.split("\n")
    blocks = document.blocks or scan(lines, document.body_line - 1).blocks
    return _Pieces(lines, document, blocks).cut()


@dataclass(slots=True)
class _Pieces:
    lines: Sequence[str]
    document: Document
    blocks: Sequence[Block]

    def cut(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        for section, start, end in self._runs():
            texts = self._texts(start, end)
            chunks += [Chunk(at, section, *place) for at, place in enumerate(texts, len(chunks))]
        document = self.document
        if chunks or document.body_line == 1 or not document.metadata:
            return chunks
        text = "\n".join(part for part in (document.title, document.summary) if part)
        return [Chunk(0, (), 1, document.body_line - 1, text)] if text else []

    def _texts(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Yield lines `start` to `end` as first and last line (from 1) and text, cut within lines of prose that are too long."""
        first, kept = start, list[str]()
        for number in range(start, end):
            line = self.lines[number]
            is_cut = len(line) > MOST and not any(b.start <= number < b.end and b.kind in _UNCUT for b in self.blocks)
            *before, last = _split_line(line) if is_cut else [line]
            for part in before:
                yield first + 1, number + 1, "\n".join([*kept, part])
                first, kept = number, []
            kept.append(last)
        yield first + 1, end, "\n".join(kept)

    def _runs(self) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Yield section, first line and the line after the last for every chunk."""
        paths = {heading.line - 1: heading.path for heading in self.document.headings}
        section: tuple[str, ...] = ()
        start = end = -1
        size = 0
        has_text = False
        for block in self.blocks:
            if block.kind == "heading":
                if has_text:
                    yield section, start, end
                    start, size, has_text = -1, 0, False
                # A heading without text stays open, and its chunk gets the path of the last heading before the text.
                section = paths.get(block.start, section)
                if start < 0:
                    start = block.start
                end = block.end
                size += len(block.text)
                continue
            if block.kind == "paragraph" and all(map(_DEFINITION.fullmatch, self.lines[block.start : block.end])):
                continue
            # Blocks fill a chunk until the next one would make it too long; headings alone never end one.
            for first, last, length in self._parts(block):
                if has_text and size + length > TARGET:
                    yield section, start, end
                    start, size = -1, 0
                if start < 0:
                    start = first
                end, size = last, size + length
                # A place to link to says nothing, like a heading.
                has_text = has_text or not (block.kind in ("html", "paragraph") and self._is_anchor(first, last))
        if start >= 0:
            yield section, start, end

    def _parts(self, block: Block) -> list[tuple[int, int, int]]:
        """Return the parts of a block that must stay together, as first line, line after the last, characters."""
        size = self._size(block.start, block.end)
        if size <= (MOST if block.kind in _UNCUT else TARGET):
            return [(block.start, block.end, size)]
        if block.kind == "list" and len(block.items) > 1:
            ends = [*block.items[1:], block.end]
            items = zip(block.items, ends, strict=True)
            return [part for first, last in items for part in self._fitted(first, last)]
        if block.kind in _UNCUT:
            # A table keeps as many rows together as possible: in passages of a few rows, large tables of short cells push out
            # pages that explain.
            return self._shared_out(block.start, block.end, MOST - SHORTEST_PART if block.kind == "table" else TARGET)
        return self._fitted(block.start, block.end)

    def _shared_out(self, start: int, end: int, target: int) -> list[tuple[int, int, int]]:
        """Return lines `start` to `end` of a long block as parts of at most `target` characters, or of one longer line."""
        parts: list[tuple[int, int, int]] = []
        first, length, left = start, 0, self._size(start, end)
        for number in range(start, end):
            size = self._size(number, number + 1)
            # A part of a few characters, such as the end of a fence, would be a passage of nothing.
            if length + size > target and length >= SHORTEST_PART <= left:
                parts.append((first, number, length))
                first, length = number, 0
            length, left = length + size, left - size
        return [*parts, (first, end, length)]

    def _fitted(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return lines `start` to `end` as one part, or cut between lines if they exceed `MOST`."""
        size = self._size(start, end)
        if size <= MOST:
            return [(start, end, size)]
        parts: list[tuple[int, int, int]] = []
        first, length, fence = start, 0, ""
        for number in range(start, end):
            line = self.lines[number]
            bare = line.lstrip(" \t>-+*0123456789.)")
            # A fence inside an item or quote is not cut either; the line that closes it still belongs to it.
            inside = fence
            if bare.startswith(("```", "~~~")):
                fence = "" if fence == bare[:3] else fence or bare[:3]
            if not inside and length and length + len(line) > TARGET:
                parts.append((first, number, length))
                first, length = number, 0
            length += len(line) + 1
        parts.append((first, end, length))
        return parts

    def _is_anchor(self, start: int, end: int) -> bool:
        return self._size(start, end) <= TARGET and bool(_ANCHORS.fullmatch("\n".join(self.lines[start:end])))

    def _size(self, start: int, end: int) -> int:
        return sum(map(len, self.lines[start:end])) + end - start


def _split_line(line: str) -> list[str]:
    """Cut a long line after sentences or words into parts of about `TARGET` characters, which add up to the line."""
    parts: list[str] = []
    at = 0
    while len(line) - at > MOST:
        window = line[at : at + TARGET]
        ends = [found.end() for found in _SENTENCE_END.finditer(window)]
        end = ends[-1] if ends and ends[-1] > TARGET // 3 else window.rfind(" ") + 1
        end = end or TARGET
        parts.append(line[at : at + end])
        at += end
    return [*parts, line[at:]]
