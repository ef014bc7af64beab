"""Writes a tree of HTML as Markdown that means the same, as plainly as possible. Pure.

Each line is first written without escapes and parsed again; only if its meaning would change is it written more carefully.
That is why this is not one of the general converters: they escape either too little (words get lost or turn into marks) or every
bracket and dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from mcp_server.connectors.plane.text.html_tree import (
    INLINE,
    LONGEST_HTML,
    Element,
    normal_address,
    parsed,
    plain_text,
    split_addresses,
)
from mcp_server.connectors.plane.text.markdown import THE_REST, fence_for, html_of, is_simple_item

Kind = Literal["text", "code", "image", "break"]
Link = tuple[str, str]
"""An address and a title."""
MARKS = {
    "strong": "strong",
    "b": "strong",
    "em": "em",
    "i": "em",
    "s": "s",
    "del": "s",
    "strike": "s",
}
SIGNS = {"strong": "**", "em": "*", "s": "~~"}
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
LONGEST_LINE, MOST_SIGNS = 20_000, 300
"""The most characters and special signs of a line that is parsed again. In a longer line every sign is escaped, because
parsing would take too long."""
SIGN = re.compile(r"[\[\]*_`~<&\\]")
PLAIN = re.compile(r"[^\W\d_][^\\`*_\[\]<>&~|#\n]*")
"""Text without any sign that means something in a line, and that begins with a letter, which begins no block."""
ENTITY = re.compile(r"&(?=#?\w+;)")
TAG_LIKE = re.compile(r"<(?=[A-Za-z/!?])")
"""Text that looks like HTML is always escaped: some viewers take HTML in Markdown for what it says."""
TASK_BOX = re.compile(r"\[([ xX])\]( |$)")
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = ("ul", "ol")
BLANKS = " \t\r\n\f"


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A stretch of a line with the same marks. `address` is where an image is."""

    kind: Kind
    text: str
    marks: frozenset[str] = frozenset()
    link: Link | None = None
    address: str = ""


BLANK = MarkedText("text", " ")
BREAK = MarkedText("break", "\n")


def markdown_of(html: str | None, people: Mapping[str, str] | None = None) -> str:
    """Return a text of Plane as Markdown, without active content; `people` are names by id, for mentions.

    If `html_of` made the HTML, applying it to the result gives the same HTML.
    """
    text = "\n\n".join(_Writer(people or {}).blocks(parsed(html or ""))).strip("\n")
    return f"{text}\n\n{THE_REST}" if html and len(html) > LONGEST_HTML else text


class _Writer:
    """Writes one text."""

    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = people

    def blocks(self, element: Element) -> list[str]:
        """Return the blocks inside, each with its lines."""
        found: list[str] = []
        previous = sign = ""
        for part in _parts(element):
            tag = "" if isinstance(part, list) else part.tag
            if isinstance(part, list):
                blocks = [self._line(self._runs(part))]
            elif tag in LISTS:
                # Two lists in a row are told apart by their signs alone.
                other = {"-": "*", ".": ")"}.get(sign) if previous == tag else None
                sign = other or ("-" if tag == "ul" else ".")
                blocks = [self._list(part, sign)]
            else:
                blocks = self._block(part)
            blocks = [block for block in blocks if block]
            if blocks:
                previous = tag if tag in LISTS else ""
                found += blocks
        return found

    def _block(self, element: Element) -> list[str]:
        tag = element.tag
        if tag == "pre":
            return [_fence(element)]
        if tag == "hr":
            # Not dashes, which make a heading of a line of text above them, and not stars, which can begin a list.
            return ["___"]
        if tag == "blockquote":
            inner = "\n\n".join(self.blocks(element))
            return ["\n".join(f"> {line}".rstrip() for line in inner.split("\n"))] if inner else []
        if tag == "table":
            return self._table(element)
        if tag in HEADINGS:
            sign = "#" * HEADINGS[tag] + " "
            line = self._line(self._runs_without_breaks(element), sign)
            return [sign + line] if line else []
        return self.blocks(element)

    def _list(self, element: Element, sign: str) -> str:
        items = _items(element)
        start = element.attributes.get("start", "1")
        # CommonMark reads at most nine digits as the number of an item.
        number = int(start) if start.isdecimal() and len(start) < 10 else 1
        loose = any(not _is_simple(item) for item in items)
        marked = [item.attributes.get("data-type") == "taskItem" for item in items]
        is_of_tasks = element.attributes.get("data-type") == "taskList" or (bool(marked) and all(marked))
        written: list[str] = []
        for place, item in enumerate(items):
            item_sign = sign if element.tag == "ul" else f"{min(number + place, 999_999_999)}{sign}"
            if element.tag == "ul" and is_of_tasks:
                written.append(self._task(item, item_sign, loose=loose))
                continue
            blocks = self.blocks(item)
            if blocks and TASK_BOX.match(blocks[0]):
                blocks[0] = "\\" + blocks[0]
            written.append(_under(item_sign, blocks, loose=loose))
        return ("\n\n" if loose else "\n").join(written)

    def _task(self, item: Element, sign: str, *, loose: bool) -> str:
        box = "[x]" if item.attributes.get("data-checked") == "true" else "[ ]"
        inner = _without_box(item)
        blocks = self.blocks(inner)
        if blocks and _begins_with_line(inner):
            return _under(sign, [f"{box} {blocks[0]}", *blocks[1:]], loose=loose)
        return _under(sign, [box, *blocks], loose=loose or bool(blocks))

    def _table(self, element: Element) -> list[str]:
        rows = [row for row in element.every() if row.tag == "tr"]
        cells = [row.elements("td", "th") for row in rows]
        width = max((len(row) for row in cells), default=0)
        if not width:
            return self.blocks(Element("div", {}, [child for row in rows for child in row.children]))
        sides = [_alignment(cell) for cell in cells[0]] + ["---"] * (width - len(cells[0]))
        lines = [
            [self._line(self._runs_without_breaks(cell)).replace("|", "\\|") for cell in row]
            + [""] * (width - len(row))
            for row in cells
        ]
        return ["\n".join("| " + " | ".join(line) + " |" for line in [lines[0], sides, *lines[1:]])]

    def _runs(self, children: Sequence[Element | str]) -> list[MarkedText]:
        found: list[MarkedText] = []
        self._gather(children, frozenset(), None, found)
        return _tidy(found)

    def _runs_without_breaks(self, element: Element) -> list[MarkedText]:
        return [
            replace(run, kind="text", text=" ") if run.kind == "break" else run for run in self._runs(element.children)
        ]

    def _gather(
        self,
        children: Sequence[Element | str],
        marks: frozenset[str],
        link: Link | None,
        found: list[MarkedText],
    ) -> None:
        for child in children:
            if isinstance(child, str):
                # Markdown would read bare addresses as links.
                parts = [(child, "")] if link else split_addresses(child)
                found += [MarkedText("text", part, marks, (to, "") if to else link) for part, to in parts if part]
            elif child.tag == "br":
                found.append(BREAK)
            elif child.tag == "code":
                found.append(MarkedText("code", plain_text(child), marks, link))
            elif child.tag in ("img", "image-component"):
                address, title = child.attributes.get("src", ""), child.attributes.get("alt", "")
                found.append(MarkedText("image", " ".join(title.split()), marks, link, address))
            elif child.tag == "mention-component":
                who = child.attributes.get("entity_identifier", "")
                found.append(MarkedText("text", f"@{self._people.get(who) or who or 'somebody'}", marks, link))
                self._gather(child.children, marks, link, found)
            elif child.tag == "a" and child.attributes.get("href"):
                to_page = (child.attributes["href"], " ".join(child.attributes.get("title", "").split()))
                self._gather(child.children, marks, link or to_page, found)
            elif child.tag != "input":
                own = marks | {MARKS[child.tag]} if child.tag in MARKS else marks
                self._gather(child.children, own, link, found)
                if child.tag not in INLINE:
                    found.append(MarkedText("text", " ", marks, link))

    def _line(self, runs: Sequence[MarkedText], prefix: str = "") -> str:
        """Return the runs as one piece of Markdown that is read as the same runs; `prefix` makes a heading of it."""
        if not runs:
            return ""
        text = "".join(run.text for run in runs)
        if list(runs) == [MarkedText("text", text)] and PLAIN.fullmatch(text) and "://" not in text:
            return text
        signs = len(runs) + sum(len(SIGN.findall(run.text)) for run in runs)
        if signs > MOST_SIGNS or len(text) > LONGEST_LINE:
            return _joined(runs, _fully_escaped)
        # With the marks first, then without: some, such as a bold blank, have no form in Markdown.
        for shown in (runs, [replace(run, marks=frozenset()) for run in runs]):
            for escape in (_barely_escaped, _escaped, _fully_escaped):
                line = _joined(shown, escape)
                if self._read_again(prefix + line) == _normal(shown):
                    return line
        # No Markdown form would be read as the same: keep all words, and give up marks and links.
        return _joined([MarkedText("text", run.text) for run in runs if run.text.strip()], _fully_escaped)

    def _read_again(self, markdown: str) -> list[MarkedText] | None:
        read = parsed(html_of(markdown))
        inner = [child for child in read.children if not isinstance(child, str) or child.strip()]
        if len(inner) != 1 or isinstance(inner[0], str) or inner[0].tag not in ("p", *HEADINGS):
            return None
        return _normal(self._runs(inner[0].children))


# Blocks


def _parts(element: Element) -> list[Element | list[Element | str]]:
    """Return the blocks inside, and the stretches of a line between them."""
    parts: list[Element | list[Element | str]] = []
    for is_line, children in groupby(element.children, key=_is_inline):
        if is_line:
            parts += _lines(list(children), apart=element.tag not in ("p", *HEADINGS))
        else:
            for child in children:
                if isinstance(child, Element) and child.tag == "div":
                    # Its content follows the blocks before it: two lists in a row must be told apart there, too.
                    parts += _parts(child)
                elif isinstance(child, Element):
                    parts.append(child)
    return parts


def _lines(children: Sequence[Element | str], *, apart: bool) -> Iterable[list[Element | str]]:
    """Yield the stretches of a line; with `apart`, each picture separately, as the editor puts them between blocks."""
    line: list[Element | str] = []
    for child in children:
        if apart and isinstance(child, Element) and child.tag == "image-component":
            if line:
                yield line
            yield [child]
            line = []
        else:
            line.append(child)
    if line:
        yield line


def _is_inline(child: Element | str) -> bool:
    if isinstance(child, str):
        return True
    return child.tag in INLINE and not any(inner.tag not in INLINE for inner in child.every())


def _says_something(line: Sequence[Element | str]) -> bool:
    return any(not isinstance(child, str) or child.strip() for child in line)


def _under(sign: str, blocks: Sequence[str], *, loose: bool) -> str:
    """Return an item of a list: its sign, and the blocks beside and below it."""
    body = ""
    for block in blocks:
        # After a line of text an empty item would underline it, and make a heading of it.
        parted = "\n\n" if loose or re.match(r"(?:[-*]|\d+[.)])(?:\n|$)", block) else "\n"
        body = f"{body}{parted}{block}" if body else block
    space = " " * (len(sign) + 1)
    first, *others = body.split("\n")
    return "\n".join([f"{sign} {first}".rstrip(), *(f"{space}{line}" if line else "" for line in others)])


def _items(element: Element) -> list[Element]:
    """Return the items of a list; anything misplaced between them also becomes an item."""
    items: list[Element] = []
    for child in element.children:
        if isinstance(child, Element) and child.tag == "li":
            items.append(child)
        elif _says_something([child]):
            items.append(Element("li", {}, [child]))
    return items


def _is_simple(item: Element) -> bool:
    kinds = ["p" if isinstance(part, list) else part.tag for part in _parts(_without_box(item)) if _counts(part)]
    return is_simple_item(kinds, "p")


def _counts(part: Element | list[Element | str]) -> bool:
    return _says_something(part) if isinstance(part, list) else True


def _begins_with_line(item: Element) -> bool:
    """Return whether an item begins with a line of text."""
    first = next((part for part in _parts(item) if _counts(part)), None)
    return first is not None and (isinstance(first, list) or first.tag in ("p", "div"))


def _without_box(item: Element) -> Element:
    """Return an item without its box, and without the element that only holds the rest."""
    children: list[Element | str] = []
    for child in item.children:
        if isinstance(child, Element) and child.tag == "div":
            children += child.children
        elif not (isinstance(child, Element) and child.tag == "label" and not plain_text(child)):
            children.append(child)
    return Element("li", {}, children)


def _alignment(cell: Element) -> str:
    style = cell.attributes.get("style", "").replace(" ", "")
    for side, line in (("left", ":--"), ("center", ":-:"), ("right", "--:")):
        if f"text-align:{side}" in style:
            return line
    return "---"


def _fence(element: Element) -> str:
    holder = next(iter(element.elements("code")), element)
    text = "".join(_texts(element))
    sign = fence_for(text)
    names = f"{holder.attributes.get('class', '')} {element.attributes.get('class', '')}"
    # Without `|`: the parser looks for tables first, and would take such a line and a row of dashes below it for one.
    language = re.search(r"language-([^\s`|]+)(?=\s|$)", names)
    return f"{sign}{language[1] if language else ''}\n{text}\n{sign}"


def _texts(element: Element) -> Iterable[str]:
    for child in element.children:
        if isinstance(child, str):
            yield child
        elif child.tag == "br":
            yield "\n"
        else:
            yield from _texts(child)


# Runs of a line


def _tidy(runs: Sequence[MarkedText]) -> list[MarkedText]:
    """Return the runs with white space as HTML renders it: one space between words, none at the ends of a line.

    A space or break has only the marks that both neighbours have, so that no mark begins or ends with one.
    """
    kept: list[MarkedText] = []
    for piece in (piece for run in runs for piece in _pieces(run)):
        if piece in (BLANK, BREAK):
            if not kept or kept[-1] == BREAK:
                continue
            # A break replaces a blank next to it.
            if kept[-1] == BLANK:
                kept.pop()
        kept.append(piece)
    while kept and kept[-1] in (BLANK, BREAK):
        kept.pop()
    for at, piece in enumerate(kept):
        if piece.kind == "break" or piece.text == " ":
            before, after = kept[at - 1], kept[at + 1]
            link = before.link if before.link == after.link else None
            kept[at] = MarkedText(piece.kind, piece.text, before.marks & after.marks, link)
    return _merged(kept)


def _pieces(run: MarkedText) -> Iterable[MarkedText]:
    """Yield the words of a run, and separately the blanks at its ends."""
    if run.kind != "text":
        if run.kind == "break" or run.text or run.address:
            yield run
        return
    words = run.text.strip(BLANKS)
    if run.text[:1] in BLANKS:
        yield BLANK
    if words:
        yield MarkedText("text", re.sub(f"[{BLANKS}]+", " ", words), run.marks, run.link)
        if run.text[-1] in BLANKS:
            yield BLANK


def _merged(runs: Iterable[MarkedText]) -> list[MarkedText]:
    """Return the runs with neighbours joined that are text with the same marks and link."""
    found: list[MarkedText] = []
    for run in runs:
        last = found[-1] if found else None
        if last and last.kind == run.kind == "text" and (last.marks, last.link) == (run.marks, run.link):
            found[-1] = MarkedText("text", last.text + run.text, run.marks, run.link)
        else:
            found.append(run)
    return found


def _normal(runs: Sequence[MarkedText]) -> list[MarkedText]:
    """Return the runs in a normal form: two with the same meaning are equal."""
    return _merged(
        replace(
            run,
            link=(normal_address(run.link[0]), run.link[1]) if run.link else None,
            address=normal_address(run.address) if run.address else "",
        )
        for run in runs
    )


def _joined(runs: Sequence[MarkedText], escape: Callable[[str], str]) -> str:
    """Return the runs as Markdown. Marks and links open and close like brackets, the longest outside."""
    out: list[str] = []
    at = 0
    while at < len(runs):
        run = runs[at]
        around: list[str | Link] = [*(sign for sign in SIGNS if sign in run.marks), *([run.link] if run.link else [])]
        if not around:
            out.append(_unmarked_run(run, escape))
            at += 1
            continue
        lengths = [_length(runs, at, one) for one in around]
        longest = max(lengths)
        outer, inner = around[lengths.index(longest)], runs[at : at + longest]
        at += longest
        if isinstance(outer, str):
            text = _joined([replace(one, marks=one.marks - {outer}) for one in inner], escape)
            out.append(f"{SIGNS[outer]}{text}{SIGNS[outer]}")
            continue
        inner = [replace(one, link=None) for one in inner]
        shown = "".join(one.text for one in inner)
        plain = all(one.kind == "text" and not one.marks for one in inner)
        # Between angle brackets an address is read as it is, if it holds neither of them nor a blank.
        if (
            plain
            and outer in ((shown, ""), (normal_address(shown), ""))
            and re.fullmatch(r"https?://[!-;=?-~]+", shown)
        ):
            out.append(f"<{shown}>")
        else:
            out.append(f"[{_joined(inner, escape)}]({_target(*outer)})")
    return "".join(out)


def _length(runs: Sequence[MarkedText], at: int, one: str | Link) -> int:
    """Return how many runs from there on have that mark or link."""
    end = at
    while end < len(runs) and (one in runs[end].marks or one == runs[end].link):
        end += 1
    return end - at


def _unmarked_run(run: MarkedText, escape: Callable[[str], str]) -> str:
    if run.kind == "break":
        return "\\\n"
    if run.kind == "image":
        return f"![{_fully_escaped(run.text)}]({_target(run.address, '')})"
    if run.kind == "text":
        return escape(run.text)
    lengths = {len(found) for found in re.findall(r"`+", run.text)}
    sign = "`" * next(length for length in range(1, len(run.text) + 2) if length not in lengths)
    pad = " " if run.text[:1] == "`" or run.text[-1:] == "`" else ""
    return f"{sign}{pad}{run.text}{pad}{sign}"


def _target(address: str, title: str) -> str:
    if not re.fullmatch(r"[!-'*-;=?-\[\]-~]+", address):
        in_angles = re.sub(r"([<>\\])", r"\\\1", " ".join(address.split()))
        address = f"<{in_angles}>"
    # Markdown decodes entities in a target, too.
    address = ENTITY.sub(r"\\&", address)
    return f'{address} "{_fully_escaped(title)}"' if title else address


def _barely_escaped(text: str) -> str:
    return TAG_LIKE.sub(r"\\<", text)


def _escaped(text: str) -> str:
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", text)
    text = re.sub(r"([`*\[\]~])", r"\\\1", text)
    # Within a word an underscore marks nothing.
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)
    text = ENTITY.sub(r"\\&", text)
    text = TAG_LIKE.sub(r"\\<", text)
    # Signs that begin a heading, quote or list only at the start of a line.
    return re.sub(r"^(?=[#>+=|-])|^(\d+)(?=[.)])", r"\1\\", text)


def _fully_escaped(text: str) -> str:
    return PUNCTUATION.sub(r"\\\1", text)
