"""Writes markdown-it's tokens as HTML: every text visible and escaped, every address judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import ClassVar, Literal
from urllib.parse import unquote, urlsplit

from markdown_it.token import Token

from mcp_server.web.markdown.page_parts import ANY_LENGTH
from mcp_server.web.markdown.raw_html import RawTag, clean, kept_attributes, open_after
from mcp_server.web.markdown.rendered_page import PageLinks
from mcp_server.web.markdown.syntax.footnotes import Footnotes, NumberedNote
from mcp_server.web.markdown.syntax.obsidian_blocks import BLOCK_ANCHOR
from mcp_server.web.markdown.syntax.parser import DEEPEST, TOO_MUCH, ParserSteps, TooManySteps
from mcp_server.web.text.sanitize import VisibleText, spelled_out

_NAMES_OF_CALLOUTS = (
    "note abstract summary tldr info todo tip hint important success check done question help faq warning caution attention"
    " failure fail missing danger error bug example quote cite"
)
_NAMES_OF_DIAGRAMS = (
    "mermaid plantuml puml dot graphviz d2 ditaa nomnoml vega vega-lite wavedrom geojson topojson stl bpmn c4plantuml"
)
CALLOUTS = frozenset(_NAMES_OF_CALLOUTS.split())
DIAGRAMS = frozenset(_NAMES_OF_DIAGRAMS.split())
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".avif", ".bmp", ".ico")
LARGEST_PIXELS = 4_000
MOST_BACK = 20
"""A footnote links back to at most this many of the places that refer to it."""
NOT_RENDERED = "This block is too complex to render, so its source is shown."
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,30}")
_SIZE = re.compile(r"(\d{1,4})(?:x(\d{1,4}))?")
_HOST = re.compile(r"(?:https?://)?((?:[\w-]+\.)+[A-Za-z]{2,24})(?:[/:?#@].*)?", re.IGNORECASE | re.DOTALL)
_PLAIN_WORDS = re.compile(r"[ -~\n]*")


@dataclass(frozen=True, slots=True)
class PageAnchors:
    """The ids that links inside a page may lead to, with their lines: those of headings by any name, and those of blocks.

    `first` and `last` are the lines that are shown; `elsewhere` is the address of other lines, without the number.
    """

    by_line: Mapping[int, str] = field(default_factory=dict)
    by_name: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    blocks: Mapping[str, int] = field(default_factory=dict)
    first: int = 1
    last: int = ANY_LENGTH
    elsewhere: str = ""

    def address(self, name: str) -> str | None:
        """Return the address that `#name` leads to, None if the page has no such heading or block."""
        name = name.lstrip("#").strip()
        if name.startswith("^"):
            line, anchor = self.blocks.get(name[1:], 0), name
        else:
            line, anchor = self.by_name.get(folded_name(name), (0, ""))
        if not line:
            return None
        return f"#{anchor}" if self.first <= line <= self.last else f"{self.elsewhere}{line}#{anchor}"


def folded_name(name: str) -> str:
    """Return the name of a heading for comparison."""
    return " ".join(name.replace("#", " ").replace(">", " ").split()).casefold()


def attribute(value: str) -> str:
    """Return a text as the value of an attribute, with every character visible."""
    return escape(value if _PLAIN_WORDS.fullmatch(value) else spelled_out(value))


def visible(text: str) -> str:
    """Return a text as HTML, with every character visible."""
    if _PLAIN_WORDS.fullmatch(text) and " " * 40 not in text:
        return escape(text, quote=False)
    return str(VisibleText(text).html(0, len(text)))


def as_source(lines: str, note: str = NOT_RENDERED) -> str:
    """Return the source of a block as HTML, below a sentence that says why."""
    return f'<div class="as-source"><p class="note">{escape(note)}</p><pre tabindex="0">{visible(lines)}</pre></div>'


@dataclass
class HtmlWriter:
    """Writes the blocks of one page or of one embedded text."""

    links: PageLinks
    anchors: PageAnchors
    tag_address: Callable[[str], str | None]
    embed: Callable[[str], str | None]
    source: Sequence[str]
    footnotes: Footnotes
    steps: ParserSteps
    offset: int = 0
    """The line, from 0, of the first line that was parsed."""
    begin: int = 0
    """The first line that is shown; before it is the head of a table that continues here."""
    has_ids: bool = True
    _notes: dict[str, str] = field(default_factory=dict)
    _closings: list[str] = field(default_factory=list)
    _in_link: int = 0

    def blocks(self, tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
        """Yield first line, last line (from 1) and HTML of every outermost block, except footnotes that something refers to."""
        refused: list[int] = []
        for start, end in _outermost(tokens):
            part = tokens[start:end]
            lines = self._lines(part)
            if not lines or all(token.type == "comment" for token in part):
                continue
            html = self._rendered(part)
            if html is None:
                refused = [*refused[:1], *lines[-1:]] if refused else [*lines]
                continue
            if refused:
                yield self._refused(*refused)
                refused = []
            if part[0].type == "footnote_open" and self._is_used(part[0]):
                self._notes[part[0].meta["label"]] = html
            elif html.strip():
                yield lines[0] + 1, lines[1], html
        if refused:
            yield self._refused(*refused)

    def _lines(self, part: Sequence[Token]) -> tuple[int, int] | None:
        """Return the first line of a block, from 0, and the one after its last; None for what has no lines."""
        maps = [token.map for token in part if token.map]
        if not maps:
            return None
        first, last = min(span[0] for span in maps) + self.offset, max(span[1] for span in maps) + self.offset
        while last > first + 1 and not self.source[last - 1].strip():
            last -= 1
        return max(first, self.begin), last

    def _rendered(self, part: Sequence[Token]) -> str | None:
        """Return the HTML of an outermost block, None if it takes too much."""
        if any(TOO_MUCH in token.meta or token.level >= DEEPEST - 2 for token in part):
            return None
        try:
            return clean(self.html(part))
        except TooManySteps:
            self._closings.clear()
            self._in_link = 0
            return None

    def _refused(self, first: int, end: int) -> tuple[int, int, str]:
        """Return the source of one block or of several that follow one another."""
        return first + 1, end, as_source("\n".join(self.source[first:end]))

    def notes(self, elsewhere: Sequence[Token] = ()) -> str:
        """Return the footnotes that the blocks refer to, in order. Some may be defined `elsewhere`, in other parts of the page."""
        for start, end in _outermost(elsewhere):
            part = elsewhere[start:end]
            if part[0].type == "footnote_open" and self._is_used(part[0]):
                self._notes.setdefault(part[0].meta["label"], self._rendered(part) or "")
        items = [self._note(label, note) for label, note in self.footnotes.numbered.items()]
        if not items:
            return ""
        return clean(f'<section class="footnotes" aria-label="Footnotes"><ol>{"".join(items)}</ol></section>')

    def _is_used(self, opening: Token) -> bool:
        return opening.meta["label"] in self.footnotes.numbered and not opening.meta["again"]

    def _note(self, label: str, note: NumberedNote) -> str:
        inside = self._notes.get(label, "")
        if note.inline is not None:
            inside = clean(f"<p>{self.line(Token('inline', '', 0, children=note.inline))}</p>")
        if not self.has_ids:
            return f"<li>{inside}</li>"
        back = "".join(
            f' <a class="footnote-back" href="#{_reference_id(note.number, time)}" aria-label="Back to reference {time} of note '
            f'{note.number}">\u21a9</a>'
            for time in range(1, min(note.references, MOST_BACK) + 1)
        )
        text, end, after = inside.rstrip().rpartition("</p>")
        whole = f"{text}{back}{end}{after}" if end and not after else f"{inside}{back}"
        return f'<li id="fn:{note.number}">{whole}</li>'

    def html(self, tokens: Sequence[Token]) -> str:
        """Return the HTML of these tokens, before it is cleaned."""
        out: list[str] = []
        for index, token in enumerate(tokens):
            if token.hidden:
                continue
            if "id" in token.meta and self.has_ids:
                out.append(f'<span id="^{token.meta["id"]}"></span>')
            if token.type == "inline":
                out.append(self.line(token))
            elif writes := self._BLOCKS.get(token.type):
                out.append(writes(self, token, tokens, index))
            elif token.tag:
                out.append(f"</{token.tag}>\n" if token.nesting < 0 else f"<{token.tag}>")
        return "".join(out)

    def line(self, token: Token) -> str:
        """Return the HTML of a paragraph's, heading's or cell's text."""
        children = token.children or []
        words = [_words(child) for child in children]
        whole = "".join(words)
        shown = None if _PLAIN_WORDS.fullmatch(whole) and " " * 40 not in whole else VisibleText(whole)
        out: list[str] = []
        at = 0
        for index, (child, text) in enumerate(zip(children, words, strict=True)):
            html = escape(text, quote=False) if shown is None else str(shown.html(at, at + len(text)))
            at += len(text)
            if child.type in ("text", "softbreak"):
                out.append(html)
            elif writes := self._LINES.get(child.type):
                out.append(writes(self, child, html, (children, words, index)))
            elif child.tag:
                out.append(f"</{child.tag}>" if child.nesting < 0 else f"<{child.tag}>")
            else:
                out.append(html)
        return "".join(out)

    # --- blocks -------------------------------------------------------------------------------------------------------

    def _heading(self, token: Token, _: Sequence[Token], __: int) -> str:
        line = token.map[0] + self.offset + 1 if token.map and not token.level else 0
        anchor = self.anchors.by_line.get(line)
        return f'<{token.tag} id="{escape(anchor)}">' if anchor else f"<{token.tag}>"

    def _fence(self, token: Token, _: Sequence[Token], __: int) -> str:
        info = token.info.strip()
        word = info.split(maxsplit=1)[0] if info else ""
        language = word if _LANGUAGE.fullmatch(word) else ""
        code = f' class="language-{language}"' if language else ""
        html = f'<pre tabindex="0"><code{code}>{visible(token.content)}</code></pre>\n'
        caption = f"Diagram in {language}, shown as its source" if language.lower() in DIAGRAMS else ""
        if info != language:
            caption = f"{caption}: {info}" if caption else info
        if not caption:
            return html
        return f'<figure class="code"><figcaption>{visible(caption)}</figcaption>{html}</figure>\n'

    def _math(self, token: Token, _: Sequence[Token], __: int) -> str:
        return f'<pre tabindex="0"><code class="math">{visible(token.content)}</code></pre>\n'

    def _list_item(self, token: Token, _: Sequence[Token], __: int) -> str:
        done = token.meta.get("task")
        if done is None:
            return "<li>"
        state = 'checked aria-label="done"' if done in "xX" else 'aria-label="to do"'
        return f'<li class="task"><input type="checkbox" disabled {state}> '

    def _ordered_list(self, token: Token, _: Sequence[Token], __: int) -> str:
        start = token.attrs.get("start")
        return "<ol>" if start is None else f'<ol start="{int(start)}">'

    def _table(self, token: Token, _: Sequence[Token], __: int) -> str:
        if token.nesting < 0:
            return "</table></div>\n"
        return f"{_TABLE}<table>"

    def _cell(self, token: Token, _: Sequence[Token], __: int) -> str:
        side = str(token.attrs.get("style", "")).removeprefix("text-align:")
        return f'<{token.tag} class="{side}">' if side in ("left", "right", "center") else f"<{token.tag}>"

    def _callout(self, token: Token, _: Sequence[Token], __: int) -> str:
        folds = token.meta["fold"]
        tag = "details" if folds else "div"
        if token.nesting < 0:
            return f"</{tag}>\n"
        kind = token.meta["kind"]
        of_kind = f" callout-{kind}" if kind in CALLOUTS else ""
        return f'<{tag} class="callout{of_kind}"{" open" if folds == "+" else ""}>'

    def _callout_title(self, token: Token, _: Sequence[Token], __: int) -> str:
        tag = "summary" if token.meta["fold"] else "p"
        return f"</{tag}>\n" if token.nesting < 0 else f'<{tag} class="callout-title">'

    def _html(self, token: Token, _: Sequence[Token], __: int) -> str:
        pieces = token.meta.get("pieces", [token.content])
        kept = any(isinstance(piece, RawTag) and piece.kept for piece in pieces)
        html = "".join(self._piece(piece) for piece in pieces)
        return html if kept else f'<pre class="raw-html" tabindex="0">{html.rstrip()}</pre>\n'

    def _unused_note(self, token: Token, _: Sequence[Token], __: int) -> str:
        if self._is_used(token):
            return ""
        return f'<p class="note">Footnote {visible(token.meta["written"])}, which nothing refers to:</p>'

    def _paragraph(self, _: Token, tokens: Sequence[Token], index: int) -> str:
        line = tokens[index + 1]
        return "<div>" if _only_embeds(line) else "<p>"

    def _paragraph_end(self, _: Token, tokens: Sequence[Token], index: int) -> str:
        return "</div>\n" if _only_embeds(tokens[index - 1]) else "</p>\n"

    # --- inside lines -------------------------------------------------------------------------------------------------

    def _code(self, _: Token, html: str, __: _Line) -> str:
        return f"<code>{html}</code>"

    def _line_math(self, _: Token, html: str, __: _Line) -> str:
        return f'<code class="math">{html}</code>'

    def _break(self, _: Token, html: str, __: _Line) -> str:
        return f"<br>{html}"

    def _note_reference(self, token: Token, _: str, __: _Line) -> str:
        number, time = token.meta["number"], token.meta["reference"]
        if not self.has_ids:
            return f'<sup class="footnote-ref">{number}</sup>'
        identity = f' id="{_reference_id(number, time)}"' if time <= MOST_BACK else ""
        return f'<sup class="footnote-ref"><a href="#fn:{number}"{identity} aria-label="Footnote {number}">{number}</a></sup>'

    def _tag(self, token: Token, html: str, _: _Line) -> str:
        address = self.tag_address(token.meta["name"])
        return f'<a class="tag" href="{escape(address)}">{html}</a>' if address else f'<span class="tag">{html}</span>'

    def _wiki(self, token: Token, html: str, _: _Line) -> str:
        opening, closing = self._to(token.meta["target"])
        return f"{opening}{html}{closing}"

    def _link_open(self, token: Token, _: str, line: _Line) -> str:
        opening, closing = self._to_written(str(token.attrs.get("href", "")), str(token.attrs.get("title", "")), line)
        self._closings.append(closing)
        self._in_link += 1
        return opening

    def _link_close(self, _: Token, __: str, ___: _Line) -> str:
        self._in_link -= 1
        return self._closings.pop() if self._closings else ""

    def _image(self, token: Token, html: str, _: _Line) -> str:
        words = _words(token)
        words, size = _sized(words) if "|" in words else (words, None)
        if size:
            html = visible(words)
        return self._picture(str(token.attrs.get("src", "")), (words, html), str(token.attrs.get("title", "")), size)

    def _html_in_line(self, token: Token, _: str, __: _Line) -> str:
        return "".join(self._piece(piece) for piece in token.meta.get("pieces", [token.content]))

    def _embed(self, token: Token, html: str, line: _Line) -> str:
        target, label = token.meta["target"], token.meta["label"]
        path = target.partition("#")[0].strip()
        file = self.links.file(path) if path else None
        if _is_picture(path):
            words, size = _sized(label)
            alt = words or path.rpartition("/")[2]
            if file is None:
                return _missing(visible(alt), f"There is no file {path}")
            return f'<img src="{escape(file)}" alt="{attribute(alt)}"{_pixels(size)} loading="lazy">'
        if _is_block(line) and (inner := self.embed(target)) is not None:
            opening, closing = self._to(target)
            return f'<div class="embed"><p class="embed-title">{opening}{html}{closing}</p>{inner}</div>'
        if file is not None:
            return f'<a class="attachment" href="{escape(file)}">{html}</a>'
        opening, closing = self._to(target)
        return f"{opening}{html}{closing}"

    def _piece(self, piece: str | RawTag) -> str:
        if isinstance(piece, str):
            return visible(piece)
        if not piece.kept:
            return visible(piece.source)
        if piece.name == "img":
            alt = piece.attributes.get("alt", "")
            sizes = [piece.attributes.get(side, "") for side in ("width", "height")]
            size = _SIZE.fullmatch("x".join(part for part in sizes if part))
            return self._picture(piece.attributes.get("src", ""), (alt, visible(alt)), "", size)
        if piece.name == "a":
            if piece.closing:
                return self._link_close(_NO_TOKEN, "", _NO_LINE)
            opening, closing = self._to_written(
                piece.attributes.get("href", ""), piece.attributes.get("title", ""), _NO_LINE
            )
            self._closings.append(closing)
            self._in_link += 1
            return opening
        if piece.closing:
            return "</table></div>" if piece.name == "table" else f"</{piece.name}>"
        attributes = "".join(f' {name}="{attribute(value)}"' for name, value in kept_attributes(piece))
        return f"{_TABLE if piece.name == 'table' else ''}<{piece.name}{attributes}>"

    # --- addresses ----------------------------------------------------------------------------------------------------

    def _to(self, target: str, title: str = "") -> tuple[str, str]:
        """Return the opening and closing tags of a link to a page or file of the knowledge base."""
        shown = f' title="{attribute(title)}"' if title else ""
        if target.startswith("#") and self.has_ids:
            own = self.anchors.address(target)
            if own is None:
                return _MISSING.format(attribute(f"There is no {target} on this page")), "</span>"
            return f'<a href="{escape(own)}"{shown}>', "</a>"
        address = self.links.page(target)
        if address is not None:
            return f'<a href="{escape(address)}"{shown}>', "</a>"
        file = self.links.file(target.partition("#")[0])
        if file is not None:
            return f'<a class="attachment" href="{escape(file)}"{shown}>', "</a>"
        return _MISSING.format(attribute(f"There is no page {target}")), "</span>"

    def _to_written(self, href: str, title: str, line: _Line) -> tuple[str, str]:
        """Return the tags of a Markdown or HTML link: `href` is an address or the path of a page."""
        # A definition may be used thousands of times, so a long one counts each time.
        self.steps.spend((len(href) + len(title)) // 20)
        place, address = _judged(href)
        if place == "refused":
            return f'<span class="blocked" title="{attribute(f"not a link here: {address}")}">', "</span>"
        if place == "elsewhere":
            shown = f' title="{attribute(title)}"' if title else ""
            return f"<a{_elsewhere(address)}{shown}>", f"{_real_host(address, line)}</a>"
        if not address:
            return _MISSING.format("This link has no target"), "</span>"
        return self._to(_decoded(address), title)

    def _picture(self, source: str, alt: tuple[str, str], title: str, size: re.Match[str] | None) -> str:
        """Return a picture of the knowledge base; one from elsewhere is not loaded, so it is a link."""
        words, html = alt
        self.steps.spend((len(source) + len(title)) // 20)
        place, address = _judged(source)
        if place == "refused" or address.startswith("mailto:"):
            return (
                f'<span class="blocked" title="{attribute(f"not shown: {address[:200]}")}">{html or "picture"}</span>'
            )
        if place == "elsewhere":
            where = f'title="{attribute(f"picture: {address}")}"'
            if self._in_link:
                return f'<span class="external image" {where}>{html or "picture"}</span>'
            return f"<a{_elsewhere(address, 'image')} {where}>{html or visible(address)}</a>"
        path = _decoded(address)
        file = self.links.file(path) if path else None
        if file is None:
            return _missing(html or visible(path), f"There is no file {path}")
        shown = f' title="{attribute(title)}"' if title else ""
        return f'<img src="{escape(file)}" alt="{attribute(words)}"{shown}{_pixels(size)} loading="lazy">'

    _BLOCKS: ClassVar[Mapping[str, Callable[[HtmlWriter, Token, Sequence[Token], int], str]]] = {
        "heading_open": _heading,
        "fence": _fence,
        "code_block": _fence,
        "math_block": _math,
        "list_item_open": _list_item,
        "ordered_list_open": _ordered_list,
        "table_open": _table,
        "table_close": _table,
        "th_open": _cell,
        "td_open": _cell,
        "callout_open": _callout,
        "callout_close": _callout,
        "callout_title_open": _callout_title,
        "callout_title_close": _callout_title,
        "html_block": _html,
        "footnote_open": _unused_note,
        "paragraph_open": _paragraph,
        "paragraph_close": _paragraph_end,
    }
    _LINES: ClassVar[Mapping[str, Callable[[HtmlWriter, Token, str, _Line], str]]] = {
        "code_inline": _code,
        "math": _line_math,
        "hardbreak": _break,
        "tag": _tag,
        "wiki": _wiki,
        "embed": _embed,
        "link_open": _link_open,
        "link_close": _link_close,
        "image": _image,
        "html_inline": _html_in_line,
        "footnote_reference": _note_reference,
    }


_Line = tuple[Sequence[Token], Sequence[str], int]
"""The tokens of a line, the words that each shows, and the index of the token that is being written."""
_NO_LINE: _Line = ((), (), 0)
_NO_TOKEN = Token("link_close", "a", -1)
_TABLE = '<div class="table" role="group" aria-label="Table" tabindex="0">'
"""The element around every table. On a narrow screen the table can be scrolled inside it, also with the keyboard."""
_MISSING = '<span class="missing" title="{0}">'


def _outermost(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield where each outermost block begins and ends; blocks inside one HTML element are together."""
    start = depth = elements = 0
    for index, token in enumerate(tokens):
        depth += token.nesting
        if depth or token.type == BLOCK_ANCHOR:
            continue
        if token.type == "html_block":
            elements = open_after(token, elements)
        if not elements:
            yield start, index + 1
            start = index + 1
    if start < len(tokens):
        yield start, len(tokens)


def _words(token: Token) -> str:
    """Return the text that is shown for a token inside a line."""
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    if token.type in ("wiki", "embed"):
        return str(token.meta["label"] or token.meta["target"].lstrip("#"))
    if token.type == "image":
        return "".join(_words(child) for child in token.children or ())
    return "" if token.type == "html_inline" or token.nesting else token.content


def _reference_id(number: int, time: int) -> str:
    return f"fnref:{number}" if time == 1 else f"fnref:{number}:{time}"


def _only_embeds(line: Token) -> bool:
    """Return whether a paragraph is nothing but embedded texts; pictures are part of a paragraph."""
    children = line.children or []
    return any(child.type == "embed" and not _is_picture(child.meta["target"]) for child in children) and all(
        child.type in ("embed", "softbreak") or (child.type == "text" and not child.content.strip())
        for child in children
    )


def _is_picture(target: str) -> bool:
    return target.partition("#")[0].strip().casefold().endswith(PICTURES)


def _is_block(line: _Line) -> bool:
    return _only_embeds(Token("inline", "", 0, children=list(line[0])))


def _sized(words: str) -> tuple[str, re.Match[str] | None]:
    """Return a description without the size at its end, and the size: `a plan|300x200`."""
    text, _, size = words.rpartition("|")
    found = _SIZE.fullmatch(size.strip())
    return (text, found) if found else (words, None)


def _pixels(size: re.Match[str] | None) -> str:
    if not size:
        return ""
    sides = zip(("width", "height"), size.groups(), strict=True)
    return "".join(f' {name}="{int(side)}"' for name, side in sides if side and 0 < int(side) <= LARGEST_PIXELS)


def _decoded(href: str) -> str:
    """Return the target of a Markdown link as text: the path decoded, the anchor after `#` too, without a query."""
    path = re.split(r"[#?]", href, maxsplit=1)[0]
    anchor = href.partition("#")[2]
    return f"{unquote(path)}#{unquote(anchor)}" if anchor else unquote(path)


def _judged(written: str) -> tuple[Literal["here", "elsewhere", "refused"], str]:
    """Return whether an address is a path `here`, one `elsewhere` that may be linked to, or `refused`; and the address itself."""
    address = written.strip()
    if address.startswith("//"):
        address = f"https:{address}"
    scheme = _SCHEME.match(address)
    if not scheme:
        return "here", address
    if scheme[1].lower() == "mailto":
        return "elsewhere", address
    try:
        host = urlsplit(address).hostname if scheme[1].lower() in ("http", "https") else None
    except ValueError:
        host = None
    return "elsewhere" if host else "refused", address


def _elsewhere(address: str, kind: str = "") -> str:
    name = f"external {kind}".strip()
    return f' class="{name}" href="{escape(address)}" rel="noopener noreferrer" referrerpolicy="no-referrer"'


def _real_host(href: str, line: _Line) -> str:
    """Return the host of `href` as a note if the words of the link look like an address of another host, else ""."""
    children, words, index = line
    depth = 0
    label: list[str] = []
    for child, text in zip(children[index:], words[index:], strict=True):
        depth += (child.type == "link_open") - (child.type == "link_close")
        if not depth:
            break
        label.append(text)
    found = _HOST.fullmatch("".join(label).strip())
    if not found:
        return ""
    host = str(urlsplit(href).hostname or "")
    named = found[1].casefold().removeprefix("www.")
    return "" if named == host.casefold().removeprefix("www.") else f' <span class="leads-to">({visible(host)})</span>'


def _missing(html: str, why: str) -> str:
    return f"{_MISSING.format(attribute(why))}{html}</span>"
