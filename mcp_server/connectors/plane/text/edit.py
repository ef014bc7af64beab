"""Carries an edit of a text, made in Markdown, over into the HTML that Plane stores. Pure.

Markdown has no form for many features of Plane's editor: callouts, colours, alignment, merged cells, embedded tasks. So
the stored HTML is edited, not replaced. The blocks of the new Markdown are matched with the Markdown of the HTML's
blocks. Blocks that match keep their bytes, as do list items, table rows, and blocks in quotes and callouts. Only the
others are made from Markdown, and `lost` lists the forms of Plane's editor that are lost that way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from html import escape
from html.parser import HTMLParser
from typing import Literal

import nh3

from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.html_tree import DEEPEST, INLINE, LONGEST_HTML, OF_THE_EDITOR, VOID
from mcp_server.connectors.plane.text.markdown import html_of, markdown_parser

LISTS = ("ul", "ol")
LINES = ("p", *(f"h{level}" for level in range(1, 7)))
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?: {1,4}(?! )|$)")
_BOX = re.compile(r"\[([ xX])\](?: |$)")
_START = re.compile(r' start="\d+"')
_WHOLE_LIST = re.compile(r"<(ul|ol)[^<>]*>(.*)</\1>", re.DOTALL)
_WHOLE_LINE = re.compile(r"<(p|h[1-6])>(.*)</\1>", re.DOTALL)
_PICTURE = re.compile(r'<image-component\b[^<>]*?\ssrc="([^"<>]+)"[^<>]*>(?:</image-component>)?')
_BODY_ROW = re.compile(r"<tbody>\s*(<tr>.*</tr>)\s*</tbody>", re.DOTALL)


class NotEditable(Exception):
    """The HTML or the Markdown has a form that is not edited piece by piece."""


def edited(
    html: str,
    markdown: str,
    people: Mapping[str, str] | None = None,
    finish: Callable[[str], str] = str,
) -> str:
    """Return `html` changed so that it reads like `markdown`; unchanged blocks keep their bytes.

    `people` are the names with which the caller read it. If that cannot be done, all of it is made from `markdown`. `finish` gets
    each piece of HTML that is made from `markdown`, and returns what is stored: it may turn names into mentions.
    """
    made = _with_pictures(html_of(markdown), html)
    if len(html) > LONGEST_HTML:
        return finish(made)
    try:
        changed = _with_pictures(_Edit(people or {}, finish).blocks(_Reader(html).root, markdown), html)
    except NotEditable:
        return finish(made)
    # Whatever was kept, the result must say what the caller wrote. A mention may have its name in another case.
    same = markdown_of(changed, people).casefold() == markdown_of(made).casefold()
    return changed if same else finish(made)


def _with_pictures(html: str, before: str) -> str:
    """Return `html` in which each picture that is a whole paragraph is again the editor's element from `before`.

    The caller saw it as a link that only Plane can follow.
    """
    for found in _PICTURE.finditer(before):
        alone = re.search(rf'<p><img src="{re.escape(found[1])}"[^<>]*></p>', html)
        if alone:
            html = html[: alone.start()] + found[0] + html[alone.end() :]
    return html


# The elements that Plane's API keeps; of the others, such as an embedded task's, only the text inside is stored.
# Source: apps/api/plane/utils/content_validator.py of github.com/makeplane/plane.
_KEPT = "|".join(sorted(nh3.ALLOWED_TAGS | OF_THE_EDITOR))
_NOT_KEPT = re.compile(rf"</?(?!(?:{_KEPT})[\s/>])[a-z][\w-]*[^<>]*>", re.IGNORECASE)


def as_plane_keeps(html: str) -> str:
    """Return `html` without the elements that Plane removes from every description that its API gets."""
    return _NOT_KEPT.sub("", html)


FEATURES = (
    ("callout", re.compile(r'data-block-type="callout-component"')),
    ("rule", re.compile(r'data-type="horizontalRule"|<hr\b')),
    ("colour", re.compile(r"data-text-color=")),
    ("highlight", re.compile(r"data-background-color=|<mark\b")),
    ("underline", re.compile(r"<u[\s>]")),
    ("superscript or subscript", re.compile(r"<su[pb]\b")),
    ("alignment", re.compile(r"<(?:p|h[1-6])\b[^<>]*text-align")),
    ("merged cell", re.compile(r'<t[dh]\b[^<>]*\b(?:col|row)span="(?!1")')),
    ("coloured cell", re.compile(r'<t[dh]\b[^<>]*\bbackground="(?!none")')),
    ("list in a cell", re.compile(r"<t[dh]\b[^<>]*>(?:(?!</t[dh]>).)*?<[uo]l\b", re.DOTALL)),
    ("mention", re.compile(r"<mention-component\b")),
    ("picture", re.compile(r"<image-component\b")),
    ("embedded element", re.compile(rf"<(?!/|(?:{_KEPT})[\s/>])[a-z][\w-]*", re.IGNORECASE)),
)
"""Forms of Plane's editor that Markdown lacks. Source: packages/editor/src/core/extensions of github.com/makeplane/plane."""


def lost(before: str, after: str) -> str:
    """Return in words which of the editor's forms in `before` are only text in `after`, or gone; "" if none is.

    `after` is the text that Plane has afterwards: the sent text as `as_plane_keeps` changes it.
    """
    notes = []
    for name, pattern in FEATURES:
        count = len(pattern.findall(before)) - len(pattern.findall(after))
        if count > 0:
            notes.append(f"{count} {name}{'s' if count > 1 else ''}")
    return f"{', '.join(notes)} lost: Markdown or Plane's API has no form for that" if notes else ""


@dataclass(slots=True)
class _HtmlNode:
    """An element of the HTML by its places in it."""

    html: str
    tag: str
    attributes: Mapping[str, str]
    start: int
    inner_start: int
    inner_end: int = 0
    end: int = 0
    children: list[_HtmlNode] = field(default_factory=list)

    @property
    def whole(self) -> str:
        return self.html[self.start : self.end]

    @property
    def opening(self) -> str:
        return self.html[self.start : self.inner_start]

    @property
    def closing(self) -> str:
        return self.html[self.inner_end : self.end]

    @property
    def is_inline(self) -> bool:
        return self.tag in INLINE and all(child.is_inline for child in self.children)


class _Reader(HTMLParser):
    """Finds the places of all elements in HTML in which every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=False)
        self._html = html
        self._lines = [0, *(found.end() for found in re.finditer("\n", html))]
        self.root = _HtmlNode(html, "", {}, 0, 0, len(html), len(html))
        self._open = [self.root]
        self.feed(html)
        self.close()
        if len(self._open) > 1:
            raise NotEditable

    @property
    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        start = self._at
        end = start + len(self.get_starttag_text() or "")
        node = _HtmlNode(self._html, tag, {name: value or "" for name, value in attrs}, start, end, end, end)
        self._open[-1].children.append(node)
        if tag not in VOID:
            self._open.append(node)
        # Strangers write these texts, and the functions below call themselves at each level.
        if len(self._open) > DEEPEST:
            raise NotEditable

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            raise NotEditable
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._open[-1].tag != tag or len(self._open) == 1:
            raise NotEditable
        node = self._open.pop()
        node.inner_end = self._at
        node.end = self._html.index(">", node.inner_end) + 1

    def handle_comment(self, _data: str) -> None:
        raise NotEditable

    def handle_decl(self, _decl: str) -> None:
        raise NotEditable


@dataclass(slots=True)
class _HtmlPart:
    """A piece of the HTML: a block (an element, or a line without one), or the text between blocks.

    `depth` counts the callouts and similar elements around it. `bounds` says that the piece is the tag that opens or closes an
    element around blocks. `holds` says that this element has no meaning of its own: it is a `div` without attributes.
    """

    raw: str
    depth: int
    is_block: bool = False
    node: _HtmlNode | None = None
    bounds: Literal["", "opens", "closes"] = ""
    holds: bool = False


def _parts_of(parent: _HtmlNode, depth: int = 0) -> Iterator[_HtmlPart]:
    """Yield the blocks in an element and the text between them, which together are all of its content."""
    at = parent.inner_start
    for child in parent.children:
        # Between blocks, a picture is itself a block.
        if child.is_inline and child.tag != "image-component":
            continue
        yield from _line_parts(parent.html[at : child.start], depth)
        at = child.end
        if child.tag == "div" and not all(inner.is_inline for inner in child.children):
            holds = not child.attributes
            yield _HtmlPart(child.opening, depth, bounds="opens", holds=holds)
            yield from _parts_of(child, depth + (not holds))
            yield _HtmlPart(child.closing, depth, bounds="closes", holds=holds)
        else:
            yield _HtmlPart(child.whole, depth, is_block=True, node=child)
    yield from _line_parts(parent.html[at : parent.inner_end], depth)


def _line_parts(raw: str, depth: int) -> Iterator[_HtmlPart]:
    if not (text := raw.strip()):
        yield from [_HtmlPart(raw, depth)] if raw else []
        return
    before, _, after = raw.partition(text)
    yield from (_HtmlPart(piece, depth, is_block=piece == text) for piece in (before, text, after) if piece)


class _Edit:
    """One edit. Parts of old HTML and the new Markdown go in, new HTML comes out."""

    def __init__(self, people: Mapping[str, str], finish: Callable[[str], str]) -> None:
        self._people, self._finish = people, finish

    def blocks(self, parent: _HtmlNode, markdown: str) -> str:
        """Return the content of an element, changed so that it reads like `markdown`."""
        parts = list(_parts_of(parent))
        keys = [self._key(part.raw) if part.is_block else "" for part in parts]
        # A block that reads as nothing (an empty paragraph, an embedded task) stays where it is, like anything else between blocks.
        places = [at for at, key in enumerate(keys) if key]
        new = _blocks_of(markdown)
        written: dict[int, str] = {}
        added: dict[int, list[str]] = {}
        for tag, i1, i2, j1, j2 in _matched([keys[at] for at in places], [html_of(text) for text in new]):
            if tag == "equal":
                continue
            for number, at in enumerate(places[i1:i2]):
                written[at] = self._changed(parts[at], new[j1 + number]) if j1 + number < j2 else ""
            if rest := [self._made(text) for text in new[j1 + min(i2 - i1, j2 - j1) : j2]]:
                added.setdefault(_place_after(parts, places, i2), []).extend(rest)
        out = list(added.get(-1, ()))
        for at, part in enumerate(parts):
            # A callout from which everything was taken goes, too.
            if part.bounds == "closes" and not part.holds and out and out[-1] == parts[_opening(parts, at)].raw:
                out.pop()
                continue
            if raw := written.get(at, part.raw):
                out.append(raw)
            out += added.get(at, ())
        return "".join(out)

    def _key(self, raw: str) -> str:
        """Return a block's meaning in a form in which two blocks with the same meaning are equal."""
        return html_of(markdown_of(raw, self._people))

    def _made(self, markdown: str) -> str:
        return self._finish(html_of(markdown))

    def _changed(self, part: _HtmlPart, markdown: str) -> str:
        """Return the block changed so that it reads like `markdown`, which is also one block."""
        node, made = part.node, html_of(markdown)
        if node is None:
            line = _WHOLE_LINE.fullmatch(made)
            return self._finish(line[2] if line and line[1] == "p" else made)
        kind = re.match(r"<(\w+)", made)
        if kind is None or kind[1] != node.tag:
            return self._finish(made)
        if node.tag in LINES and (line := _WHOLE_LINE.fullmatch(made)):
            return node.opening + self._finish(self._with_mentions(node, line[2])) + node.closing
        if node.tag == "blockquote":
            inner = "\n".join(re.sub(r"^ {0,3}> ?", "", row) for row in markdown.split("\n"))
            return node.opening + self.blocks(node, inner) + node.closing
        if node.tag in LISTS:
            return self._list(node, markdown, made)
        return self._table(node, markdown, made) if node.tag == "table" else self._finish(made)

    def _with_mentions(self, node: _HtmlNode, made: str) -> str:
        """Return a changed line in which the mentions of the old one are mentions again, as far as their names are still there."""
        for one in _every(node):
            if one.tag == "mention-component":
                who = one.attributes.get("entity_identifier", "")
                made = made.replace(escape(f"@{self._people.get(who) or who}", quote=False), one.whole, 1)
        return made

    def _list(self, node: _HtmlNode, markdown: str, made: str) -> str:
        tasks = node.attributes.get("data-type") == "taskList"
        start = node.attributes.get("start", "1")
        new_start = re.match(r"<ol start=\"(\d+)\"", made)
        same_start = node.tag == "ul" or start == (new_start[1] if new_start else "1")
        if tasks != made.startswith('<ul data-type="taskList"') or not same_start:
            return self._finish(made)
        items = _items_of(markdown)
        opening = '<ul data-type="taskList">' if tasks else f"<{node.tag}>"
        old = [self._key(f"{opening}{item.whole}</{node.tag}>") for item in node.children]
        new = [_START.sub("", html_of(text)) for text in items]

        def write(text: str, item: _HtmlNode | None) -> str:
            if item is None:
                return self._finish(_inside_list(html_of(text)))
            inner = _without_sign(text)
            box = _BOX.match(inner) if tasks else None
            changed = item.opening + self.blocks(item, inner[box.end() :] if box else inner) + item.closing
            return _with_box(changed, "true" if box[1] != " " else "false") if box else changed

        return _rewritten(node, old, new, items, write)

    def _table(self, node: _HtmlNode, markdown: str, made: str) -> str:
        rows = [inner for inner in _every(node) if inner.tag == "tr"]
        was = markdown_of(node.whole, self._people).split("\n")
        lines = [line for line in markdown.split("\n") if line.strip()]
        if len(was) != len(rows) + 1 or len(rows) < 2 or html_of("\n".join(was[:2])) != html_of("\n".join(lines[:2])):
            return self._finish(made)
        old, new = ([html_of(f"{line}\n{was[1]}") for line in side[2:]] for side in (was, lines))

        def write(line: str, _row: _HtmlNode | None) -> str:
            found = _BODY_ROW.search(html_of(f"{was[0]}\n{was[1]}\n{line}"))
            if found is None:
                raise NotEditable
            return self._finish(found[1])

        # The rows below the first one, wherever the body of the table begins.
        body = replace(node, inner_start=rows[1].start, inner_end=rows[-1].end, children=rows[1:])
        return _rewritten(body, old, new, lines[2:], write)


def _rewritten(
    holder: _HtmlNode,
    old: Sequence[str],
    new: Sequence[str],
    texts: Sequence[str],
    write: Callable[[str, _HtmlNode | None], str],
) -> str:
    """Return `holder` with its children (items, rows) kept, changed, added and dropped as `new` has them.

    `write` returns the HTML of one of the `texts`, made from the child that it replaces, if there is one.
    """
    if len(old) != len(holder.children) or len(new) != len(texts):
        raise NotEditable
    out, at = [holder.opening], holder.inner_start
    for tag, i1, i2, j1, j2 in _matched(old, new):
        for number, child in enumerate(holder.children[i1:i2]):
            before, at = holder.html[at : child.start], child.end
            if tag == "equal":
                out += [before, child.whole]
            elif j1 + number < j2:
                out += [before, write(texts[j1 + number], child)]
        if tag != "equal":
            out += [write(text, None) for text in texts[j1 + min(i2 - i1, j2 - j1) : j2]]
    return "".join([*out, holder.html[at : holder.inner_end], holder.closing])


def _matched(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _place_after(parts: Sequence[_HtmlPart], places: Sequence[int], count: int) -> int:
    """Return the part that new blocks follow if they come after the first `count` blocks; -1 for the beginning.

    At the end of the text they come after everything. Between two blocks they are outside of a callout that ends there.
    If an element only holds the blocks, the new ones go into it, too: otherwise Plane would wrap another one around it
    with each edit.
    """
    if count == len(places):
        last = len(parts) - 1
        first = places[-1] if places else -1
        while last > first and ((parts[last].bounds == "closes" and parts[last].holds) or not parts[last].raw.strip()):
            last -= 1
        return last
    if not count:
        at = -1
        for number, part in enumerate(parts):
            if part.bounds == "opens" and part.holds:
                at = number
            elif part.raw.strip():
                break
        return at
    at = places[count - 1]
    depth = min(parts[at].depth, parts[places[count]].depth)
    while parts[at].depth > depth:
        at += 1
    return at


def _opening(parts: Sequence[_HtmlPart], closing: int) -> int:
    """Return the start of the element that ends at `closing`."""
    depth = parts[closing].depth
    return next(at for at in range(closing - 1, -1, -1) if parts[at].bounds == "opens" and parts[at].depth == depth)


def _blocks_of(markdown: str) -> list[str]:
    """Return the blocks of a text, each as it is written."""
    lines = markdown.split("\n")
    found: list[str] = []
    at = 0
    for token in markdown_parser().parse(markdown):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        start, end = token.map
        if any(line.strip() for line in lines[at:start]):
            raise NotEditable  # an address that a link elsewhere refers to
        found.append("\n".join(lines[start:end]).rstrip("\n"))
        at = end
    if any(line.strip() for line in lines[at:]):
        raise NotEditable
    return found


def _items_of(markdown: str) -> list[str]:
    lines = markdown.split("\n")
    items = [
        token.map
        for token in markdown_parser().parse(markdown)
        if token.type == "list_item_open" and token.level == 1 and token.map
    ]
    return ["\n".join(lines[start:end]).rstrip() for start, end in items]


def _without_sign(item: str) -> str:
    """Return the text of an item without its sign, and the lines below it moved to the left."""
    first, *others = item.split("\n")
    sign = _ITEM.match(first)
    if sign is None:
        raise NotEditable
    width = sign.end() if sign[0].endswith(" ") else sign.end() + 1
    moved = [line[min(width, len(line) - len(line.lstrip(" "))) :] for line in others]
    return "\n".join([first[sign.end() :], *moved])


def _inside_list(made: str) -> str:
    found = _WHOLE_LIST.fullmatch(made)
    if found is None:
        raise NotEditable
    return found[2].strip("\n")


def _with_box(item: str, state: str) -> str:
    """Return a task's element with its box in that state, `true` or `false`."""
    if f'data-checked="{state}"' in item[: item.index(">") + 1]:
        return item
    item = re.sub(r'data-checked="\w*"', f'data-checked="{state}"', item, count=1)
    if (box := re.search(r"<input\b[^<>]*>", item)) is None:
        return item
    plain = re.sub(r'\s+checked(?:="[^"]*")?', "", box[0])
    ticked = plain.replace(">", ' checked="checked">') if state == "true" else plain
    return item[: box.start()] + ticked + item[box.end() :]


def _every(node: _HtmlNode) -> Iterator[_HtmlNode]:
    for child in node.children:
        yield child
        yield from _every(child)
