"""One Markdown file, parsed: front matter, headings, links, tags. Pure."""

from __future__ import annotations

import codecs
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import accumulate

from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.pages.front_matter import is_yes, read_front_matter
from knowledge.pages.links import LinkForm, path_length, unescaped_path
from knowledge.pages.map_view import readable
from knowledge.pages.markdown.blocks import Block, Scan, scan
from knowledge.pages.markdown.conflict_markers import conflict_lines
from knowledge.pages.markdown.inline import (
    ATTRIBUTES,
    inline_tags,
    link_targets,
    plain,
    quoted_targets,
    without_attributes,
    without_code,
    without_comments,
)
from knowledge.pages.markdown.language import detect, normal_language
from knowledge.pages.markdown.telling_sentence import telling_sentence
from knowledge.pages.markdown.typography import ascii_punctuation
from knowledge.pages.paths import HEADING_SEPARATOR, INDEX_NAME, LONGEST_PATH, PageLink, parent

SUMMARY_CHARACTERS = 200
LONGEST_TITLE = 300
MOST_LINKS = 500
"""Links of one page that are kept."""
_HREF = re.compile(r"""<a\s[^<>]*?\bhref\s*=\s*["']([^"'<>\s]+)["']""", re.IGNORECASE)
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")


@dataclass(frozen=True, slots=True)
class Heading:
    """An ATX or setext heading outside quotes and lists. `line` counts from 1; `path` is the headings above it and itself.

    `text` has no inline markup.
    """

    level: int
    text: str
    line: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The contents of one file.

    `text` is the decoded file (BOM dropped, CR LF and CR made LF) with its front matter, so that line numbers match the file;
    `body_line` is the line, from 1, of the first line after the front matter. `metadata` is the front matter as plain JSON.
    `links` are the targets of links as written; `page_links` those that may lead to pages, without anchors.
    `problems` are short sentences about faults of the file (broken front matter, invalid UTF-8, conflicts of Git).
    `blocks` are the outermost blocks, kept so that cutting into chunks does not scan the text again.
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
    page_links: tuple[PageLink, ...]
    headings: tuple[Heading, ...]
    metadata: Mapping[str, object]
    untrusted: bool
    problems: tuple[str, ...]
    blocks: tuple[Block, ...] = field(default=(), repr=False, compare=False)


_WORDS = re.compile(r"\w+")
LONGEST_COMPARED = 200
LONGEST_HEAD = 12_000
"""Characters at the beginning of a page in which imports and addresses are left out: a table of contents may have many. Its language
shows in the first few hundred of the rest."""
MOST_CONFLICTS = 5
_ANCHOR_DROPPED = re.compile(r"[^\w\- ]")
_IMPORTED = re.compile(
    r"^(?:import\b[^\n]*['\"][^\n'\"]+['\"]|export (?:const|default|function|let)\b[^\n]*);?$", re.MULTILINE
)
"""Lines of MDX that bring components into a page. They begin it, and look like English."""
_ADDRESS = re.compile(
    r"\]\([^()\n]{0,500}\)|\bhttps?://\S+|\bwww\.\S+|^\[[^\[\]\n]{1,200}\]:\s*\S+|\{\{[<%][^{}\n]{0,500}\}\}|<[^<>\n]{1,500}>",
    re.MULTILINE,
)
"""Targets of links, tags and shortcodes. Their parts are stop words in some language: `com` in Catalan."""
_LISTED_LINK = re.compile(r"^[ \t]*(?:[-*+]|\d+\.)[ \t]+\[[^\[\]\n]*\]\([^()\n]*\)[ \t]*$", re.MULTILINE)
"""A line of a table of contents, which has titles and no sentences."""
_NO_PROSE = frozenset({"fence", "code", "html", "comment", "break"})


def parse(path: str, raw: bytes) -> Document:
    """Return the parsed file. Never raises: odd input is read as well as possible and described in `problems`."""
    text, problems = _decoded(raw)
    lines = text.split("\n")
    front = read_front_matter(lines)
    if front.problem:
        problems.append(front.problem)
    metadata, origin = front.metadata, _origin(front.metadata)
    found = scan(lines, front.body)
    if "<<<<<<<" in text:
        problems += [
            f"lines {first} to {last} are a conflict that Git left"
            for first, last in conflict_lines(lines, found.blocks)[:MOST_CONFLICTS]
        ]
    headings = headings_of(found.blocks)
    prose = _prose(lines, found)
    title = _title(path, metadata, headings)
    targets = link_targets(prose) if "[" in prose else []
    front_tags = [tag for item in _listed(metadata, "tags", "tag", split=True) if (tag := item.lstrip("#").strip())]
    return Document(
        path=path,
        text=text,
        body_line=front.body + 1,
        title=title,
        summary=shortened(_word(metadata, "summary", "description") or telling_sentence(lines, found.blocks, title)),
        kind=(_word(metadata, "kind", "type") or "document").lower(),
        source=origin.source,
        language=normal_language(_word(metadata, "lang", "language"))
        or _language(_IMPORTED.sub("", prose[:LONGEST_HEAD])),
        tags=tuple(dict.fromkeys([*front_tags, *inline_tags(prose)])),
        aliases=tuple(dict.fromkeys(_listed(metadata, "aliases", "alias", split=False))),
        links=tuple(dict.fromkeys(target for target, _ in targets)),
        page_links=_page_links(
            [*quoted_targets(lines[: front.body]), *targets, *_html_targets(lines, found.blocks, prose)]
        ),
        headings=headings,
        metadata=metadata,
        untrusted=origin.untrusted,
        problems=tuple(problems),
        blocks=tuple(found.blocks),
    )


def _language(beginning: str) -> str:
    """Return the language of the sentences at the beginning of a page, or if there are none, of the texts of its links."""
    sentences = _LISTED_LINK.sub("", beginning)
    return detect(_ADDRESS.sub(" ", sentences)) or detect(_ADDRESS.sub(" ", beginning))


@dataclass(frozen=True, slots=True)
class Head:
    """The front matter of a page, and the origin of the page's text that it states."""

    metadata: Mapping[str, object]
    source: str
    untrusted: bool


def head(raw: bytes) -> Head:
    """Return the front matter of a file, exactly as `parse` reads it."""
    return _origin(read_front_matter(_decoded(raw)[0].split("\n")).metadata)


def _origin(metadata: Mapping[str, object]) -> Head:
    return Head(metadata, _word(metadata, "source") or "user", is_yes(metadata.get("untrusted")))


def find_section(document: Document, name: str) -> Heading:
    """Return the heading of the document that `name` means, as `find_heading` does."""
    return find_heading(document.path, document.headings, name)


def find_heading(path: str, headings: Sequence[Heading], name: str) -> Heading:
    """Return the heading that `name` means, among the headings of the page at `path`.

    A name is the heading's text, its path `A > B` (or the end of one), its line of `#`s, or its anchor. Case, white space, markup,
    typographic punctuation and the attributes in `{#id}` are ignored where nothing matches exactly. A match of the whole path wins
    over headings whose paths only end the same.

    Raises:
        NoSuchSection: no heading matches; carries those of the page, the most similar first.
        AmbiguousName: several match, and their paths do not tell them apart.
    """
    wanted = _folded(name.lstrip("#"))
    by_anchor = anchors(headings).get(name.strip().lstrip("#").strip().casefold())
    paths = [HEADING_SEPARATOR.join(_folded(part) for part in heading.path) for heading in headings]

    def ending(text: str) -> list[Heading]:
        return [h for h, path in zip(headings, paths, strict=True) if f" > {path}".endswith(f" > {text}")]

    found = [h for h, path in zip(headings, paths, strict=True) if path == wanted] or ending(wanted)
    # `#name` tells headings apart even where their texts are the same; `# Name` and `## Name` are lines of the page.
    is_anchor = name.startswith("#") and not name.startswith(("##", "# "))
    if by_anchor is not None and (not found or is_anchor):
        return by_anchor
    if not found and wanted:
        paths = [_bare(HEADING_SEPARATOR.join(heading.path)) for heading in headings]
        bare = _bare(name.lstrip("# "))
        found = [h for h, path in zip(headings, paths, strict=True) if path == bare] or (ending(bare) if bare else [])
    if not found:
        by_id = name.strip().strip("{}").lstrip("#").casefold()
        found = [
            h
            for h in headings
            if (own := ATTRIBUTES.search(h.text)) and f"#{by_id}" in (own[1] or f"#{own[2]}").casefold().split()
        ]
    if not found or not wanted:
        raise NoSuchSection(path, name, _most_similar(headings, name))
    if len(found) > 1:
        by_line = {heading.line: anchor for anchor, heading in anchors(headings).items()}
        shown = [f"{HEADING_SEPARATOR.join(h.path)} (#{by_line[h.line]}, line {h.line})" for h in found]
        raise AmbiguousName(name, shown)
    return found[0]


def name_of(headings: Sequence[Heading], heading: Heading) -> str:
    """Return the name by which `find_heading` finds this one: its path, or its anchor if the path means another or several."""
    path = HEADING_SEPARATOR.join(heading.path)
    try:
        if find_heading("", headings, path) == heading:
            return path
    except (NoSuchSection, AmbiguousName):
        pass
    return "#" + next(anchor for anchor, one in anchors(headings).items() if one == heading)


def _folded(text: str) -> str:
    return HEADING_SEPARATOR.join(" ".join(part.split()) for part in text.split(">")).casefold().strip()


def _bare(text: str) -> str:
    """Return a heading's path for comparison: only its words and plain punctuation, without a closing colon or full stop."""
    parts = [plain(without_attributes(part).strip().lstrip("#")) for part in ascii_punctuation(text).split(">")]
    return HEADING_SEPARATOR.join(part.rstrip(" .:#").casefold() for part in parts).strip()


def _most_similar(headings: Sequence[Heading], name: str) -> list[str]:
    """Return the paths of the headings, those most similar to the name first: by words in common, then by spelling."""
    asked = _bare(name[:LONGEST_COMPARED])
    wanted = set(_WORDS.findall(asked))
    compared = difflib.SequenceMatcher(autojunk=False)
    compared.set_seq2(asked.rpartition(HEADING_SEPARATOR)[2])

    def likeness(heading: Heading) -> tuple[int, float]:
        own = _bare(heading.text[:LONGEST_COMPARED])
        compared.set_seq1(own)
        return len(wanted.intersection(_WORDS.findall(own))), compared.quick_ratio()

    return [HEADING_SEPARATOR.join(heading.path) for heading in sorted(headings, key=likeness, reverse=True)]


def anchors(headings: Sequence[Heading]) -> dict[str, Heading]:
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


def section_text(document: Document, heading: Heading) -> tuple[int, int, str]:
    """Return first line, last line (from 1, both included) and text of a section, up to the next heading of its level or above."""
    lines = document.text.split("\n")
    last = next(
        (h.line - 1 for h in document.headings if h.line > heading.line and h.level <= heading.level), len(lines)
    )
    while last > heading.line and not lines[last - 1].strip(" \t"):
        last -= 1
    return heading.line, last, "\n".join(lines[heading.line - 1 : last])


def section_tokens(document: Document) -> dict[int, int]:
    """Return the tokens of each section, including the sections inside it, by the line of its heading."""
    line_ends = list(accumulate(len(line) + 1 for line in document.text.split("\n")))
    tokens: dict[int, int] = {}
    open_headings: list[Heading] = []

    def close(level: int, before: int) -> None:
        while open_headings and open_headings[-1].level >= level:
            done = open_headings.pop()
            start = line_ends[done.line - 2] if done.line > 1 else 0
            # Rounded up, as `count_tokens` does.
            tokens[done.line] = -(-(before - start) // 4)

    for heading in document.headings:
        close(heading.level, line_ends[heading.line - 2] if heading.line > 1 else 0)
        open_headings.append(heading)
    close(0, line_ends[-1] - 1)
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
        problems.append(
            f"not valid {encoding.upper()} (first at byte {error.start}); unreadable bytes are shown as \ufffd"
        )
        text = raw.decode(encoding, errors="replace")
    if encoding == "utf-16":
        problems.append("the file is UTF-16; it was read, but other tools expect UTF-8")
        # A lone surrogate cannot be stored or sent.
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\x00" in text:
        problems.append("the file has NUL bytes; they are shown as \ufffd")
        text = text.replace("\x00", "\ufffd")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text, problems


def headings_of(blocks: Sequence[Block]) -> tuple[Heading, ...]:
    """Return the headings among the outermost blocks of a page."""
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
    """Return the text without code, HTML and comments, those inside a line too."""
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
        # Backticks of one list item do not pair with those of another, so each item becomes a paragraph.
        parts.append(block.replace("\n", "\n\n") if kind == "list" and "`" in block else block)
    return without_comments(without_code("\n\n".join(parts)))


def _page_links(targets: Sequence[tuple[str, bool]]) -> tuple[PageLink, ...]:
    found: dict[PageLink, None] = {}
    for target, wiki in targets:
        form: LinkForm = "wiki" if wiki else "inline"
        path = unescaped_path(target[: path_length(target, wiki=wiki)], form)
        if path.strip() and len(path) <= LONGEST_PATH:
            found[PageLink(path, wiki)] = None
            if len(found) == MOST_LINKS:
                break
    return tuple(found)


def _html_targets(lines: Sequence[str], blocks: Sequence[Block], prose: str) -> list[tuple[str, bool]]:
    """Return the targets of `<a href="...">` in HTML blocks, then in paragraphs."""
    texts = ["\n".join(lines[block.start : block.end]) for block in blocks if block.kind == "html"]
    found = (unescape(match[1]) for text in (*texts, prose) if "href" in text for match in _HREF.finditer(text))
    return [(target, False) for target in found if not _ELSEWHERE.match(target)]


def _title(path: str, metadata: Mapping[str, object], headings: Sequence[Heading]) -> str:
    if written := _word(metadata, "title"):
        return written[:LONGEST_TITLE]
    for heading in headings:
        if heading.level == 1 and (text := without_attributes(heading.text)):
            return text[:LONGEST_TITLE]
    name = path.rpartition("/")[2]
    # An index page is named after the folder that it describes.
    if name == INDEX_NAME and parent(path):
        name = parent(path).rpartition("/")[2]
    return readable(name)


def shortened(text: str, limit: int = SUMMARY_CHARACTERS) -> str:
    """Return `text` on one line, at most `limit` characters, cut after a word."""
    line = " ".join(text[: limit * 8].split())  # a prefix is enough, and a text may have megabytes
    if len(line) <= limit:
        return line
    head = line[: limit - 3]
    at = head.rfind(" ")
    return (head[:at] if at > limit // 2 else head).rstrip(" ,;:-") + "..."


def _word(metadata: Mapping[str, object], *keys: str) -> str:
    """Return the first value that is a word or number, as text."""
    for key in keys:
        value = metadata.get(key)
        if isinstance(value, (str, int, float)) and (text := " ".join(str(value).split())):
            return text
    return ""


def _listed(metadata: Mapping[str, object], *keys: str, split: bool) -> list[str]:
    """Return the words and numbers under these keys as texts; with `split`, a plain text is split at commas and blanks."""
    found: list[str] = []
    for key in keys:
        value = metadata.get(key)
        for item in value if isinstance(value, list) else [value]:
            # `True` is an int in Python.
            if isinstance(item, bool) or not isinstance(item, (str, int, float)):
                continue
            if split and not isinstance(value, list):
                found += re.split(r"[,\s]+", str(item))
            else:
                found.append(" ".join(str(item).split()))
    return [item for item in found if item]
