"""One Markdown file, parsed: front matter, headings, links, tags. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.pages.front_matter import read_front_matter
from knowledge.pages.map_view import readable
from knowledge.pages.markdown.blocks import Block, Scan, scan
from knowledge.pages.markdown.inline import inline_tags, link_targets, plain, without_code
from knowledge.pages.markdown.language import detect, normal_language
from knowledge.pages.paths import INDEX_NAME, parent

SUMMARY_CHARACTERS = 200
SUMMARY_BLOCKS = 40
"""Blocks that are looked at for a sentence worth showing."""
LOOKED_AT = 500
"""Characters of one block that are looked at for it: a block may be the whole file on one line."""
LONGEST_TITLE = 300


@dataclass(frozen=True, slots=True)
class Heading:
    """An ATX or setext heading outside quotes and lists. `line` counts from 1 in the file; `path` is the headings above it and itself.

    `text` is as it reads, without inline markup.
    """

    level: int
    text: str
    line: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """What one file says.

    `text` is the file decoded (a BOM dropped, CR LF and CR made LF), front matter included, so that line numbers fit
    the file; `body_line` is the line, from 1, of the first line after the front matter. `metadata` is the front
    matter made plain JSON. `problems` says in short sentences what was odd (broken front matter, invalid UTF-8).
    `blocks` are the outermost ones of the text, kept so that cutting need not look for them again.
    """

    path: str
    text: str
    body_line: int
    title: str
    summary: str
    kind: str
    source: str
    language: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    links: tuple[str, ...]
    headings: tuple[Heading, ...]
    metadata: Mapping[str, object]
    untrusted: bool
    problems: tuple[str, ...]
    blocks: tuple[Block, ...] = field(default=(), repr=False, compare=False)


_SENTENCE = re.compile(r"[.!?][\"')\]]*(?=\s)|[\u3002\uff01\uff1f]")
_ONLY_LINKS = re.compile(r"(?:!?\[[^\]]*+\]*+(?:\([^)]*+\)|\[[^\]]*+\])?\)?[\s|·,•-]*+)++$")
_CALLOUT = re.compile(r"^ {0,3}> ?\[![^\]\n]*\].*$", re.MULTILINE)
_QUOTE_MARK = re.compile(r"^ {0,3}> ?", re.MULTILINE)
_LIST_MARK = re.compile(r"^ *(?:[-+*]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_WORDY = re.compile(r"[^\W\d_]{2}|[\u0e00-\u0e7f\u3040-\u9fff\uac00-\ud7af]")
_ANCHOR_DROPPED = re.compile(r"[^\w\- ]")


def parse(path: str, raw: bytes) -> Document:
    """Return what the file says. Never raises: what is odd is read as well as it can be and told in `problems`."""
    text, problems = _decoded(raw)
    lines = text.split("\n")
    front = read_front_matter(lines)
    if front.problem:
        problems.append(front.problem)
    metadata, origin = front.metadata, _said_origin(front.metadata)
    found = scan(lines, front.body)
    headings = _headings(found.blocks)
    prose = _prose(lines, found)
    return Document(
        path=path,
        text=text,
        body_line=front.body + 1,
        title=_title(path, metadata, headings),
        summary=_summary(metadata, lines, found.blocks),
        kind=(_word(metadata, "kind", "type") or "document").lower(),
        source=origin.source,
        language=normal_language(_word(metadata, "lang", "language")) or detect(prose),
        tags=tuple(dict.fromkeys([*_front_tags(metadata), *inline_tags(prose)])),
        aliases=tuple(dict.fromkeys(_listed(metadata, "aliases", "alias", split=False))),
        links=tuple(link_targets(prose)) if "[" in prose else (),
        headings=headings,
        metadata=metadata,
        untrusted=origin.untrusted,
        problems=tuple(problems),
        blocks=tuple(found.blocks),
    )


@dataclass(frozen=True, slots=True)
class Head:
    """What the front matter of a page says: all of it, and where the page's text comes from."""

    metadata: Mapping[str, object]
    source: str
    untrusted: bool


def head(raw: bytes) -> Head:
    """Return what the front matter of a file says, exactly as `parse` takes it."""
    return _said_origin(read_front_matter(_decoded(raw)[0].split("\n")).metadata)


def _said_origin(metadata: Mapping[str, object]) -> Head:
    untrusted = _word(metadata, "untrusted").lower() in ("true", "yes", "on", "1")
    return Head(metadata, _word(metadata, "source") or "user", untrusted)


def find_section(document: Document, asked: str) -> Heading:
    """Return the heading of the document that `asked` names, as `find_heading` does."""
    return find_heading(document.path, document.headings, asked)


def find_heading(path: str, headings: Sequence[Heading], asked: str) -> Heading:
    """Return the heading that `asked` names, of those of the page at `path`.

    It names it by its text, its path `A > B` (or the end of one), its line of `#`s, or its anchor.

    Case and white space do not count. One heading whose whole path is asked for wins over others that only end alike.

    Raises:
        NoSuchSection: none is so named; carries those there are.
        AmbiguousName: several are, and their paths do not tell which.
    """
    wanted = _folded(asked.lstrip("#")) if asked.startswith("#") else _folded(asked)
    anchors = _anchors(headings)
    by_anchor = anchors.get(asked.strip().lstrip("#").strip().casefold())
    texts = [" > ".join(_folded(part) for part in heading.path) for heading in headings]
    whole = [heading for heading, text in zip(headings, texts, strict=True) if text == wanted]
    ends = [h for h, text in zip(headings, texts, strict=True) if text == wanted or text.endswith(" > " + wanted)]
    found = whole or ends
    if by_anchor is not None and (not found or _is_anchor(asked)):
        return by_anchor
    if not found and (plain_wanted := _folded(plain(asked.lstrip("# ")))) != wanted:
        found = [h for h, text in zip(headings, texts, strict=True) if (" > " + text).endswith(" > " + plain_wanted)]
    if not found or not wanted:
        raise NoSuchSection(path, asked, [" > ".join(heading.path) for heading in headings])
    return _only(headings, asked, found)


def _is_anchor(asked: str) -> bool:
    """Return whether `#name` is asked for, which tells headings apart even where their texts are the same."""
    return asked.startswith("#") and not asked.startswith(("##", "# "))


def _only(headings: Sequence[Heading], asked: str, found: Sequence[Heading]) -> Heading:
    if len(found) == 1:
        return found[0]
    anchors = {heading.line: anchor for anchor, heading in _anchors(headings).items()}
    raise AmbiguousName(asked, [f"{' > '.join(h.path)} (#{anchors[h.line]}, line {h.line})" for h in found])


def section_text(document: Document, heading: Heading) -> tuple[int, int, str]:
    """Return first line, last line (from 1, both included) and text of a section: to the next heading of its level or above."""
    lines = document.text.split("\n")
    last = next(
        (h.line - 1 for h in document.headings if h.line > heading.line and h.level <= heading.level), len(lines)
    )
    while last > heading.line and not lines[last - 1].strip(" \t"):
        last -= 1
    return heading.line, last, "\n".join(lines[heading.line - 1 : last])


def section_tokens(document: Document) -> dict[int, int]:
    """Return, by the line of each heading, the tokens of its whole section, the sections inside it included."""
    ends: list[int] = []
    at = 0
    for line in document.text.split("\n"):
        at += len(line) + 1
        ends.append(at)
    tokens: dict[int, int] = {}
    open_headings: list[Heading] = []

    def close(level: int, before: int) -> None:
        while open_headings and open_headings[-1].level >= level:
            done = open_headings.pop()
            start = ends[done.line - 2] if done.line > 1 else 0
            tokens[done.line] = -(-(before - start) // 4)

    for heading in document.headings:
        close(heading.level, ends[heading.line - 2] if heading.line > 1 else 0)
        open_headings.append(heading)
    close(0, at - 1)
    return tokens


def _decoded(raw: bytes) -> tuple[str, list[str]]:
    problems: list[str] = []
    encoding = "utf-8"
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif raw.startswith(codecs.BOM_UTF8):
        raw = raw[3:]
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.upper()
        problems.append(f"not valid {name} (first at byte {error.start}); what could not be read is shown as \ufffd")
        text = raw.decode(encoding, errors="replace")
    if encoding == "utf-16":
        problems.append("the file is UTF-16; it was read, but UTF-8 is what other tools expect")
        # A lone surrogate cannot be stored or sent.
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\x00" in text:
        problems.append("the file has NUL bytes; they are shown as \ufffd")
        text = text.replace("\x00", "\ufffd")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text, problems


def _headings(blocks: Sequence[Block]) -> tuple[Heading, ...]:
    found: list[Heading] = []
    above: list[Heading] = []
    for block in blocks:
        if block.kind == "heading":
            while above and above[-1].level >= block.level:
                above.pop()
            text = plain(block.text)
            heading = Heading(block.level, text, block.start + 1, (*(above[-1].path if above else ()), text))
            found.append(heading)
            above.append(heading)
    return tuple(found)


def _prose(lines: Sequence[str], found: Scan) -> str:
    """Return the text that a person wrote as text: without code, HTML and comments."""
    hidden = iter(found.code)
    span = next(hidden, None)
    parts: list[str] = []
    for kind, start, end, _, _, _ in found.blocks:
        if kind in _NO_PROSE:
            continue
        at = start
        while span and span[0] < end:
            parts.append("\n".join(lines[at : span[0]]))
            at = span[1]
            span = next(hidden, None)
        block = "\n".join(lines[at:end])
        # Ticks of one item do not pair with those of another.
        parts.append(block.replace("\n", "\n\n") if kind == "list" and "`" in block else block)
    return without_code("\n\n".join(parts))


_NO_PROSE = frozenset({"fence", "code", "html", "comment", "break"})


def _title(path: str, metadata: Mapping[str, object], headings: Sequence[Heading]) -> str:
    if written := _word(metadata, "title"):
        return written[:LONGEST_TITLE]
    for heading in headings:
        if heading.level == 1 and heading.text:
            return heading.text[:LONGEST_TITLE]
    name = path.rpartition("/")[2]
    if name == INDEX_NAME and parent(path):
        name = parent(path).rpartition("/")[2]
    return readable(name)


def _summary(metadata: Mapping[str, object], lines: Sequence[str], blocks: Sequence[Block]) -> str:
    if written := _word(metadata, "summary", "description"):
        return shortened(written)
    spoken = [block for block in blocks if block.kind in ("paragraph", "list", "quote")][:SUMMARY_BLOCKS]
    for block in sorted(spoken, key=lambda block: block.kind == "list"):
        text = "\n".join(lines[block.start : block.end])[:LOOKED_AT]
        if sentence := _first_sentence(text, block):
            return shortened(sentence)
    return ""


def _first_sentence(text: str, block: Block) -> str:
    """Return the first sentence of a block, "" when the block says nothing (badges, images, lists of links)."""
    if block.kind == "quote":
        text = _QUOTE_MARK.sub("", _CALLOUT.sub("", text))
    elif block.kind == "list":
        text = _LIST_MARK.sub("", text.split("\n", 1)[0])
    text = text.strip()
    if _ONLY_LINKS.match(text) or text.startswith(("|", "[TOC]", "$$")) or re.match(r"\[[^\]]+\]:", text):
        return ""
    read = plain(re.sub(r"!\[[^\[\]]*+\](?:\([^()]*+\))?", "", text))
    if not _WORDY.search(re.sub(r"(?<!\S)#\S+", "", read)):
        return ""
    ends = [found.end() for found in _SENTENCE.finditer(read)]
    return next((read[:end].strip() for end in ends if end >= 20), read)


def shortened(text: str, limit: int = SUMMARY_CHARACTERS) -> str:
    """Return `text` on one line, at most `limit` characters, cut after a word."""
    line = " ".join(text[: limit * 8].split())
    if len(line) <= limit:
        return line
    head = line[: limit - 3]
    at = head.rfind(" ")
    return (head[:at] if at > limit // 2 else head).rstrip(" ,;:-") + "..."


def _word(metadata: Mapping[str, object], *keys: str) -> str:
    """Return the first of these values that is a word or number, as text."""
    for key in keys:
        value = metadata.get(key)
        if isinstance(value, (str, int, float)) and (text := " ".join(str(value).split())):
            return text
    return ""


def _listed(metadata: Mapping[str, object], *keys: str, split: bool) -> list[str]:
    found: list[str] = []
    for key in keys:
        value = metadata.get(key)
        items = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, (str, int, float)):
                continue
            found += (
                re.split(r"[,\s]+", str(item))
                if split and not isinstance(value, list)
                else [" ".join(str(item).split())]
            )
    return [item for item in found if item]


def _front_tags(metadata: Mapping[str, object]) -> list[str]:
    return [tag for tag in (item.lstrip("#").strip() for item in _listed(metadata, "tags", "tag", split=True)) if tag]


def _folded(text: str) -> str:
    parts = (" ".join(part.split()) for part in text.split(">"))
    return " > ".join(parts).casefold().strip()


def _anchors(headings: Sequence[Heading]) -> dict[str, Heading]:
    """Return every heading by its GitHub anchor; the second of a name has `-1`, and so on."""
    found: dict[str, Heading] = {}
    counts: dict[str, int] = {}
    for heading in headings:
        slug = base = _ANCHOR_DROPPED.sub("", heading.text.casefold()).strip().replace(" ", "-")
        while slug in found:
            counts[base] = counts.get(base, 0) + 1
            slug = f"{base}-{counts[base]}"
        found[slug] = heading
    return found


__all__ = ["Document", "Heading", "find_section", "parse", "plain", "section_text", "section_tokens", "shortened"]
