"""A tree of HTML written as Markdown that says the same, as plainly as it can. Pure.

Each line of text is first written as it is, without any escape, and read again; only where it would say something else it is
written more carefully. That is why this is no general converter: those escape either too little (words get lost or turn into
marks) or every bracket and dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from mcp_server.connectors.plane.text.html_tree import (
    INLINE,
    LONGEST_HTML,
    Element,
    address_of,
    bare_addresses,
    parsed,
    plain_text,
)
from mcp_server.connectors.plane.text.markdown import THE_REST, html_of

Kind = Literal["text", "code", "image", "break"]
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
"""Characters and signs of a line that is read again; one with more has every sign escaped: reading it takes too long."""
SIGN = re.compile(r"[\[\]*_`~<&\\]")
TASK_BOX = re.compile(r"\[([ xX])\]( |$)")
HEADINGS = {f"h{level}": level for level in range(1, 7)}


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A stretch of a line that is marked in one way. `address` is where a link leads, or an image lies."""

    kind: Kind
    text: str
    marks: frozenset[str] = frozenset()
    link: tuple[str, str] | None = None
    address: str = ""


def written(html: str, people: Mapping[str, str]) -> str:
    """Return `html` as Markdown; `people` are names by id, for those who are mentioned."""
    return "\n\n".join(_Writer(people).blocks(parsed(html))).strip("\n")


class _Writer:
    """Writes one text."""

    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = people

    def blocks(self, element: Element) -> list[str]:
        """Return the blocks inside, each with its lines."""
        found: list[str] = []
        listed: str | None = None
        ending: str = ""
        for part in _parts(element):
            if isinstance(part, list):
                block = self._line(self._runs(part), _as_paragraph)
                listed = None if block else listed
            elif part.tag in ("ul", "ol"):
                # Two lists in a row are told apart by their signs alone.
                ending = {"-": "*", ".": ")"}.get(ending, "") if listed == part.tag else ""
                ending = ending or ("-" if part.tag == "ul" else ".")
                block = self._list(part, ending)
                listed = part.tag if block else listed
            else:
                inner = self._block(part)
                listed = None if inner else listed
                found.extend(inner)
                continue
            if block:
                found.append(block)
        return found

    def _block(self, element: Element) -> list[str]:
        tag = element.tag
        if tag == "pre":
            return [_fence(element)]
        if tag == "hr":
            return ["___"]
        if tag == "blockquote":
            return self._quote(element)
        if tag == "table":
            return self._table(element)
        if tag in HEADINGS:
            sign = "#" * HEADINGS[tag]
            runs = [_without_break(run) for run in self._runs(element.children)]
            line = self._line(runs, lambda text: f"{sign} {text}")
            return [f"{sign} {line}"] if line else []
        return self.blocks(element)

    def _quote(self, element: Element) -> list[str]:
        inner = "\n\n".join(self.blocks(element))
        return ["\n".join(f"> {line}".rstrip() for line in inner.split("\n"))] if inner else []

    def _list(self, element: Element, ending: str) -> str:
        items = _items(element)
        number = int(start) if (start := element.attributes.get("start", "1")).isdecimal() and len(start) < 10 else 1
        written_items: list[str] = []
        loose = any(not _is_simple(item) for item in items)
        tasks = element.tag == "ul" and _is_of_tasks(element, items)
        for place, item in enumerate(items):
            sign = ending if element.tag == "ul" else f"{min(number + place, 999_999_999)}{ending}"
            written_items.append(self._task(item, sign, loose=loose) if tasks else self._item(item, sign, loose=loose))
        return ("\n\n" if loose else "\n").join(written_items)

    def _item(self, item: Element, sign: str, *, loose: bool) -> str:
        blocks = self.blocks(item)
        if blocks and TASK_BOX.match(blocks[0]):
            blocks[0] = "\\" + blocks[0]
        return _under(sign, blocks, loose=loose)

    def _task(self, item: Element, sign: str, *, loose: bool) -> str:
        box = "[x]" if item.attributes.get("data-checked") == "true" else "[ ]"
        inner = _unboxed(item)
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
        sides = [_side(cell) for cell in cells[0]] + ["---"] * (width - len(cells[0]))
        lines = [[self._cell(cell) for cell in row] + [""] * (width - len(row)) for row in cells]
        return ["\n".join("| " + " | ".join(line) + " |" for line in [lines[0], sides, *lines[1:]])]

    def _cell(self, cell: Element) -> str:
        runs = [_without_break(run) for run in self._runs(cell.children)]
        return self._line(runs, _as_paragraph).replace("|", "\\|")

    def _runs(self, children: Sequence[Element | str]) -> list[MarkedText]:
        found: list[MarkedText] = []
        self._gather(children, frozenset(), None, found)
        return _tidy(found)

    def _gather(
        self,
        children: Sequence[Element | str],
        marks: frozenset[str],
        link: tuple[str, str] | None,
        found: list[MarkedText],
    ) -> None:
        for child in children:
            if isinstance(child, str):
                found.extend(_linked(child, marks, link))
            elif child.tag == "br":
                found.append(BREAK)
            elif child.tag == "code":
                found.append(MarkedText("code", plain_text(child), marks, link))
            elif child.tag in ("img", "image-component"):
                address, title = child.attributes.get("src", ""), child.attributes.get("alt", "")
                found.append(MarkedText("image", " ".join(title.split()), marks, link, address))
            elif child.tag == "mention-component":
                found.append(MarkedText("text", self._mentioned(child), marks, link))
                self._gather(child.children, marks, link, found)
            elif child.tag == "a" and child.attributes.get("href"):
                to = (child.attributes["href"], " ".join(child.attributes.get("title", "").split()))
                self._gather(child.children, marks, link or to, found)
            elif child.tag != "input":
                own = marks | {MARKS[child.tag]} if child.tag in MARKS else marks
                self._gather(child.children, own, link, found)
                if child.tag not in INLINE:
                    found.append(MarkedText("text", " ", marks, link))

    def _mentioned(self, element: Element) -> str:
        who = element.attributes.get("entity_identifier", "")
        return f"@{self._people.get(who) or who or 'somebody'}"

    def _line(self, runs: Sequence[MarkedText], framed: Callable[[str], str]) -> str:
        """Return the runs as one piece of Markdown that is read as the very same runs."""
        if not runs:
            return ""
        if len(runs) == 1 and _is_plain(runs[0]):
            return runs[0].text
        if _is_long_to_read(runs):
            return _put_together(runs, _wholly_escaped)
        wanted = _meant(runs)
        for unmarked in (False, True):
            for careful in (_as_it_is, _escaped, _wholly_escaped):
                said = [_unmarked(run) for run in runs] if unmarked else runs
                line = _put_together(said, careful)
                if self._read_again(framed(line)) == (_meant(said) if unmarked else wanted):
                    return line
        return _put_together([MarkedText("text", run.text) for run in runs if run.text.strip()], _wholly_escaped)

    def _read_again(self, markdown: str) -> list[MarkedText] | None:
        read = parsed(html_of(markdown))
        inner = [child for child in read.children if not isinstance(child, str) or child.strip()]
        if len(inner) != 1 or isinstance(inner[0], str) or inner[0].tag not in ("p", *HEADINGS):
            return None
        return _meant(self._runs(inner[0].children))


def _is_long_to_read(runs: Sequence[MarkedText]) -> bool:
    signs = len(runs) + sum(len(SIGN.findall(run.text)) for run in runs)
    return signs > MOST_SIGNS or sum(len(run.text) for run in runs) > LONGEST_LINE


PLAIN = re.compile(r"[^\W\d_][^\\`*_\[\]<>&~|#\n]*")
"""Text without any sign that means something in a line; a letter begins no block."""


def _is_plain(run: MarkedText) -> bool:
    """Return whether a run says what it says whoever reads it, so that it needs not be read again."""
    unmarked = run.kind == "text" and not run.marks and run.link is None
    return unmarked and PLAIN.fullmatch(run.text) is not None and "://" not in run.text


def _under(sign: str, blocks: Sequence[str], *, loose: bool) -> str:
    """Return an item of a list: its sign, and the blocks beside and below it."""
    body = ""
    for block in blocks:
        # Behind a line of text an empty item would underline it: a heading.
        parted = "\n\n" if loose or re.match(r"(?:[-*]|\d+[.)])(?:\n|$)", block) else "\n"
        body = f"{body}{parted}{block}" if body else block
    space = " " * (len(sign) + 1)
    first, *others = body.split("\n")
    return "\n".join([f"{sign} {first}".rstrip(), *(f"{space}{line}" if line else "" for line in others)])


def _as_paragraph(text: str) -> str:
    return text


def _parts(element: Element) -> list[Element | list[Element | str]]:
    """Return the blocks inside, and what stands between them as stretches of a line."""
    parts: list[Element | list[Element | str]] = []
    for is_line, children in groupby(element.children, key=_is_inline):
        if is_line:
            parts.append(list(children))
        else:
            parts.extend(child for child in children if isinstance(child, Element))
    return parts


def _is_inline(child: Element | str) -> bool:
    if isinstance(child, str):
        return True
    return child.tag in INLINE and not any(inner.tag not in INLINE for inner in child.every())


def _items(element: Element) -> list[Element]:
    """Return the items of a list; what stands between them by mistake is one, too."""
    items: list[Element] = []
    for child in element.children:
        if isinstance(child, Element) and child.tag == "li":
            items.append(child)
        elif not isinstance(child, str) or child.strip():
            items.append(Element("li", {}, [child]))
    return items


def _is_simple(item: Element) -> bool:
    """Return whether an item is one line of text, with lists below it or none; a box is no block of its own."""
    kinds: list[str] = []
    for part in _parts(_unboxed(item)):
        if not isinstance(part, list):
            kinds.append(part.tag)
        elif any(not isinstance(child, str) or child.strip() for child in part):
            kinds.append("p")
    below = kinds[1:] if kinds[:1] == ["p"] else kinds
    return all(kind in ("ul", "ol") for kind in below)


def _is_of_tasks(element: Element, items: Sequence[Element]) -> bool:
    marked = [item.attributes.get("data-type") == "taskItem" for item in items]
    return element.attributes.get("data-type") == "taskList" or (bool(marked) and all(marked))


def _begins_with_line(item: Element) -> bool:
    """Return whether the first thing that an item says is a line of text."""
    for part in _parts(item):
        if isinstance(part, list):
            if any(not isinstance(child, str) or child.strip() for child in part):
                return True
        else:
            return part.tag in ("p", "div")
    return False


def _unboxed(item: Element) -> Element:
    """Return what is in an item, without the box and what only holds it."""
    children: list[Element | str] = []
    for child in item.children:
        if isinstance(child, Element) and child.tag == "div":
            children.extend(child.children)
        elif not (isinstance(child, Element) and child.tag == "label" and not plain_text(child)):
            children.append(child)
    return Element("li", {}, children)


def _side(cell: Element) -> str:
    style = cell.attributes.get("style", "").replace(" ", "")
    return next(
        (
            line
            for side, line in (("left", ":--"), ("center", ":-:"), ("right", "--:"))
            if f"text-align:{side}" in style
        ),
        "---",
    )


def _fence(element: Element) -> str:
    holder = next(iter(element.elements("code")), element)
    text = "".join(_texts(element))
    sign = "`" * max(3, 1 + max((len(found) for found in re.findall(r"`+", text)), default=0))
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


def _linked(text: str, marks: frozenset[str], link: tuple[str, str] | None) -> list[MarkedText]:
    """Return the text with its bare addresses as links, as Markdown would read them."""
    if link is not None:
        return [MarkedText("text", text, marks, link)]
    return [
        MarkedText("text", part, marks, (address, "") if address else None)
        for part, address in bare_addresses(text)
        if part
    ]


def _tidy(runs: Sequence[MarkedText]) -> list[MarkedText]:
    """Return the runs with blanks as HTML means them: one between words, none at the ends of a line.

    A blank or a break is marked as both its neighbours are, so that no mark begins or ends with one.
    """
    pieces = [piece for run in runs for piece in _pieces(run)]
    kept = _without_ends(pieces)
    return _merged(
        [_between(kept, at) if piece.kind == "break" or piece.text == " " else piece for at, piece in enumerate(kept)]
    )


def _pieces(run: MarkedText) -> Iterable[MarkedText]:
    """Return what a run has, blanks at its ends apart from its words."""
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


BLANKS = " \t\r\n\f"
BLANK = MarkedText("text", " ")
BREAK = MarkedText("break", "\n")


def _without_ends(pieces: Sequence[MarkedText]) -> list[MarkedText]:
    """Return the pieces without blanks and breaks at the ends or beside each other; a break counts more than a blank."""
    kept: list[MarkedText] = []
    for piece in pieces:
        if piece in (BLANK, BREAK):
            if not kept or kept[-1] == BREAK:
                continue
            if kept[-1] == BLANK:
                kept.pop()
        kept.append(piece)
    while kept and kept[-1] in (BLANK, BREAK):
        kept.pop()
    return kept


def _between(pieces: Sequence[MarkedText], at: int) -> MarkedText:
    before, after = pieces[at - 1], pieces[at + 1]
    return MarkedText(
        pieces[at].kind,
        pieces[at].text,
        before.marks & after.marks,
        before.link if before.link == after.link else None,
    )


def _merged(runs: Sequence[MarkedText]) -> list[MarkedText]:
    """Return the runs with neighbours joined that are text and marked alike."""
    found: list[MarkedText] = []
    for run in runs:
        last = found[-1] if found else None
        if last and last.kind == run.kind == "text" and (last.marks, last.link) == (run.marks, run.link):
            found[-1] = MarkedText("text", last.text + run.text, run.marks, run.link)
        else:
            found.append(run)
    return found


def _without_break(run: MarkedText) -> MarkedText:
    return MarkedText("text", " ", run.marks, run.link) if run.kind == "break" else run


def _unmarked(run: MarkedText) -> MarkedText:
    return MarkedText(run.kind, run.text, frozenset(), run.link, run.address)


def _meant(runs: Sequence[MarkedText]) -> list[MarkedText]:
    """Return the runs in a form in which those that mean the same are equal."""
    return _merged(
        [
            MarkedText(
                run.kind,
                run.text,
                run.marks,
                (address_of(run.link[0]), run.link[1]) if run.link else None,
                address_of(run.address) if run.address else "",
            )
            for run in runs
        ]
    )


def _put_together(runs: Sequence[MarkedText], careful: Callable[[str], str]) -> str:
    """Return the runs as Markdown: marks and links open and close like brackets, what lasts longest outside."""
    out: list[str] = []
    at = 0
    while at < len(runs):
        around: list[str | tuple[str, str]] = [sign for sign in SIGNS if sign in runs[at].marks]
        link = runs[at].link
        around += [link] if link else []
        if not around:
            out.append(_plain(runs[at], careful))
            at += 1
            continue
        lasting = [_lasts(runs, at, one) for one in around]
        longest = max(lasting)
        one, inner = around[lasting.index(longest)], runs[at : at + longest]
        out.append(_wrapped(one, [_inside(run, one) for run in inner], careful))
        at += longest
    return "".join(out)


def _lasts(runs: Sequence[MarkedText], at: int, one: str | tuple[str, str]) -> int:
    """Return how many runs from there on have that mark or link."""
    end = at
    while end < len(runs) and (one in runs[end].marks or one == runs[end].link):
        end += 1
    return end - at


def _inside(run: MarkedText, one: str | tuple[str, str]) -> MarkedText:
    if isinstance(one, str):
        return MarkedText(run.kind, run.text, run.marks - {one}, run.link, run.address)
    return MarkedText(run.kind, run.text, run.marks, None, run.address)


def _wrapped(one: str | tuple[str, str], inner: Sequence[MarkedText], careful: Callable[[str], str]) -> str:
    if isinstance(one, str):
        return f"{SIGNS[one]}{_put_together(inner, careful)}{SIGNS[one]}"
    if _is_address(one, inner):
        return f"<{one[0]}>"
    return f"[{_put_together(inner, careful)}]({_target(*one)})"


def _plain(run: MarkedText, careful: Callable[[str], str]) -> str:
    if run.kind == "break":
        return "\\\n"
    if run.kind == "code":
        return _code(run.text)
    if run.kind == "image":
        return f"![{_wholly_escaped(run.text)}]({_target(run.address, '')})"
    return careful(run.text)


def _code(text: str) -> str:
    longest = {len(found) for found in re.findall(r"`+", text)}
    sign = "`" * next(length for length in range(1, len(text) + 2) if length not in longest)
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{sign}{pad}{text}{pad}{sign}"


def _is_address(link: tuple[str, str], runs: Sequence[MarkedText]) -> bool:
    """Return whether a link shows just where it leads."""
    shown = "".join(run.text for run in runs)
    plain = all(run.kind == "text" and not run.marks for run in runs)
    return plain and not link[1] and shown == link[0] and re.fullmatch(r"https?://[!-;=?-~]+", shown) is not None


def _target(address: str, title: str) -> str:
    plain = re.fullmatch(r"[!-'*-;=?-\[\]-~]+", address)
    shown = address if plain else f"<{_in_angles(address)}>"
    return f'{shown} "{_wholly_escaped(title)}"' if title else shown


def _in_angles(address: str) -> str:
    return re.sub(r"([<>\\])", r"\\\1", " ".join(address.split()))


TAG_LIKE = re.compile(r"<(?=[A-Za-z/!?])")
"""What looks like HTML is always escaped: whoever shows the Markdown may take HTML for what it says."""


def _as_it_is(text: str) -> str:
    return TAG_LIKE.sub(r"\\<", text)


def _escaped(text: str) -> str:
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", text)
    text = re.sub(r"([`*\[\]~])", r"\\\1", text)
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)
    text = re.sub(r"&(?=#?\w+;)", r"\\&", text)
    return re.sub(r"^([#>+=|-])|^(\d+)([.)])", _line_start, TAG_LIKE.sub(r"\\<", text))


def _line_start(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"


def _wholly_escaped(text: str) -> str:
    return PUNCTUATION.sub(r"\\\1", text)


def markdown_of(html: str | None, people: Mapping[str, str] | None = None) -> str:
    """Return a text of Plane as Markdown, without anything that acts; `people` are names by id, for mentions.

    What `html_of` made comes back so that `html_of` makes the same of it again.
    """
    text = written(html or "", people or {})
    return f"{text}\n\n{THE_REST}" if html and len(html) > LONGEST_HTML else text
