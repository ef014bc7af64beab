"""Made-up Markdown pages, and edits whose joined result is known because they touch different parts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

_TEXT = (
    "server note page revision merge block table list reader writer host lease port queue limit cache token search index "
    "route answer état größe файл 知識 merging keeps loses always never often seldom quickly slowly after before under over"
)
_WORDS = _TEXT.split()
_ALIKE = (("list", "numbers", "tasks"), ("quote", "callout"))
STRICT = ("fence", "tilde", "html", "callout", "quote")
"""Kinds in which an unchanged line must separate edits of two sides."""


@dataclass(frozen=True, slots=True)
class Atom:
    """The smallest editable part: a line of a paragraph, an item, a row, a key. `text` has no line end."""

    name: int
    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """A block of atoms; the first `fixed` and the last `closing` are never edited."""

    kind: str
    atoms: tuple[Atom, ...]
    fixed: int = 0
    closing: int = 0


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one atom: other text, removal, or new atoms or blocks after it."""

    atom: int
    what: str
    words: str


@dataclass(slots=True)
class Maker:
    """Makes pages and edits; every word group is new, so that lost or doubled text is noticed."""

    random: random.Random
    made: int = 0
    named: int = field(default=0)

    def words(self, most: int = 7) -> str:
        """Return some words, one of which occurs nowhere else."""
        self.made += 1
        some = [self.random.choice(_WORDS) for _ in range(self.random.randint(2, most))]
        some.insert(self.random.randrange(len(some) + 1), f"w{self.made}")
        return " ".join(some)

    def atom(self, text: str) -> Atom:
        """Return a new atom."""
        self.named += 1
        return Atom(self.named, text)

    def page(self, blocks: int) -> list[Block]:
        """Return a page of that many blocks, beginning with front matter or a title."""
        found = [self.block("front")] if self.random.random() < 0.5 else []
        found.append(Block("heading", (self.atom(f"# {self.words(3)}"),)))
        kinds = ["paragraph"] * 5 + ["heading"] * 3 + ["list"] * 3 + ["numbers", "table", "table", "tasks", *STRICT]
        for _ in range(blocks):
            kind = self.random.choice(kinds)
            # Without a block between them, two lists or two quotes would become one; headings are never taken out.
            since = [block.kind for block in _since_heading(found)]
            if any(kind in alike and any(one in alike for one in since) for alike in _ALIKE):
                kind = "heading"
            found.append(self.block(kind))
        return found

    def block(self, kind: str) -> Block:
        """Return a new block of that kind."""
        count = self.random.randint(1, 5)
        texts = [self.line(kind, at) for at in range(count)]
        match kind:
            case "front":
                return Block(kind, (self.atom("---"), *map(self.atom, texts), self.atom("---")), 1, 1)
            case "heading":
                return Block(kind, (self.atom("#" * self.random.randint(2, 4) + " " + self.words(3)),))
            case "table":
                head = [f"| key | {self.words(2)} | more |", "| --- | :-: | --- |"]
                return Block(kind, tuple(map(self.atom, [*head, *texts])), 2)
            case "fence":
                return Block(kind, tuple(map(self.atom, ["```text", *texts, "```"])), 1, 1)
            case "tilde":
                return Block(kind, tuple(map(self.atom, ["~~~~", "```", *texts, "~~~~"])), 2, 1)
            case "html":
                return Block(kind, tuple(map(self.atom, ["<div>", *texts, "</div>"])), 1, 1)
            case "callout":
                return Block(kind, tuple(map(self.atom, ["> [!note] Mind", *texts])), 1)
        return Block(kind, tuple(map(self.atom, texts)))

    def line(self, kind: str, at: int) -> str:
        """Return a new line of a block of that kind."""
        match kind:
            case "list":
                nested = f"\n  - {self.words()}" if self.random.random() < 0.3 else ""
                return f"- {self.words()}{nested}"
            case "tasks":
                return f"- [{self.random.choice(' x')}] {self.words()}"
            case "numbers":
                return f"{at + 1}. {self.words()}"
            case "table":
                return f"| {self.words(2)} | {self.words(2)} | {self.words(2)} |"
            case "callout" | "quote":
                return f"> {self.words()}"
            case "front":
                self.made += 1
                comment = f"# about w{self.made}\n" if self.random.random() < 0.3 else ""
                return f"{comment}key{self.made}: {self.words(2)}"
        return self.words()

    def edits(self, page: Sequence[Block], atoms: Sequence[int], most: int) -> list[Edit]:
        """Return edits of some of these atoms, one each."""
        found: list[Edit] = []
        where = {atom.name: block for block in page for atom in block.atoms}
        for name in self.random.sample(atoms, min(len(atoms), self.random.randint(1, most))):
            block = where[name]
            what = self.random.choice(["change", "change", "after", "remove", "block"])
            if block.kind == "heading" and what in ("after", "remove"):
                what = "change"
            if block.kind == "front" and what == "block":
                what = "after"
            # A new block goes behind the whole block, so only an edit of the last atom makes its place unambiguous.
            if what == "block" and block.atoms[-1].name != name:
                what = "change"
            found.append(Edit(name, what, self.line(block.kind, 0) if what != "block" else self.words()))
        return found


def _since_heading(page: Sequence[Block]) -> Iterator[Block]:
    for block in reversed(page):
        if block.kind == "heading":
            return
        yield block


def scrambled(maker: Maker, text: str, most: int) -> str:
    """Return the text with random lines removed, inserted, changed by a word, doubled or moved."""
    lines = text.split("\n")
    for _ in range(maker.random.randint(1, most)):
        at, to = maker.random.randrange(len(lines)), maker.random.randrange(len(lines) + 1)
        match maker.random.randrange(6):
            case 0:
                del lines[at : at + maker.random.choice([1, 1, 2, 5])]
            case 1:
                lines.insert(to, maker.random.choice(["", "- ", "> ", "", "## ", "    "]) + maker.words())
            case 2:
                lines[at] = f"{lines[at]} {maker.words(2)}"
            case 3:
                lines[to:to] = ["", maker.words(), ""]
            case 4:
                moved = lines[at : at + 4]
                del lines[at : at + 4]
                lines[to:to] = moved
            case _:
                lines.insert(to, maker.random.choice(["", "---", "```", "~~~~", "<!--", "-->", "%%", "</div>", "==="]))
        lines = lines or [""]
    return "\n".join(lines)


def free_atoms(page: Sequence[Block]) -> list[int]:
    """Return the names of the atoms that may be edited."""
    return [a.name for block in page for a in block.atoms[block.fixed : len(block.atoms) - block.closing]]


def parted(maker: Maker, page: Sequence[Block]) -> tuple[list[int], list[int]]:
    """Return the atoms for two sides; indivisible blocks go to one side, or have an untouched line in between."""
    sides: tuple[list[int], list[int]] = ([], [])
    for block in page:
        free = block.atoms[block.fixed : len(block.atoms) - block.closing]
        whole = maker.random.randrange(2)
        for at, atom in enumerate(free):
            if block.kind not in STRICT:
                sides[maker.random.randrange(2)].append(atom.name)
            elif len(free) < 3:
                sides[whole].append(atom.name)
            elif at in (0, len(free) - 1):
                sides[whole if at == 0 else 1 - whole].append(atom.name)
    return sides


def edited(page: Sequence[Block], edits: Sequence[Edit]) -> list[Block]:
    """Return the page after these edits.

    Every block keeps at least one atom that is not fixed, or is removed completely.
    """
    by_atom = {edit.atom: edit for edit in edits}
    found: list[Block] = []
    for block in page:
        atoms: list[Atom] = []
        after: list[Block] = []
        for atom in block.atoms:
            edit = by_atom.get(atom.name)
            if edit is None:
                atoms.append(atom)
            elif edit.what == "change":
                atoms.append(replace(atom, text=_changed(block, atom, edit.words)))
            elif edit.what == "after":
                atoms += [atom, Atom(-atom.name, edit.words)]
            elif edit.what == "block":
                atoms.append(atom)
                after.append(Block("paragraph", (Atom(-atom.name, edit.words),)))
        if len(atoms) > (block.fixed + block.closing if block.kind not in ("table", "front") else 0):
            found.append(replace(block, atoms=tuple(atoms)))
        found += after
    return found


def _changed(block: Block, atom: Atom, words: str) -> str:
    if block.kind == "heading":
        return atom.text + " " + words[-8:]
    # The name of a row or key, and the number of an item, stay.
    if block.kind == "table":
        return "|".join(atom.text.split("|")[:2]) + "|" + "|".join(words.split("|")[2:])
    if block.kind == "front":
        return atom.text.rpartition(":")[0] + ": " + words.rpartition(": ")[2]
    if block.kind == "numbers":
        words = words.partition(". ")[2]
    # An atom changed beyond recognition has no known place among new neighbours.
    first, *rest = atom.text.split("\n")
    kept = first.rpartition(" ")[0] if first.count(" ") > 3 else first
    return "\n".join([f"{kept} {words.rpartition(' ')[2]} {words.split()[-2]}", *rest])


def printed(page: Sequence[Block], end: str = "\n", *, bom: bool = False, closed: bool = True) -> str:
    """Return the page as text; numbered items are renumbered."""
    texts = ["\n".join(_numbered(block)) for block in page]
    text = "\n\n".join(texts) + ("\n" if closed else "")
    return ("\ufeff" if bom else "") + text.replace("\n", end)


def _numbered(block: Block) -> Iterator[str]:
    for at, atom in enumerate(block.atoms, 1):
        yield f"{at}.{atom.text.partition('.')[2]}" if block.kind == "numbers" else atom.text
