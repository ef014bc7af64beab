"""Where a snippet that came without a place belongs: in a page, and among pages. Pure.

First by heading, then by what is alike, and where nothing is, before what closes a page (see also, link definitions,
footnotes). Nothing is put into the middle of a block.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from knowledge.merge.claims.statements import stemming_language
from knowledge.merge.document.units import cut, heading_level, split_lines
from knowledge.merge.model import CutDocument, DocumentPiece, section_name
from knowledge.pages.markdown.inline import plain
from knowledge.search.query.analysis import analyzer

Similarity = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""How alike texts are in meaning: for each of the first, its likeness (up to 1) to each of the second."""

How = Literal["heading", "similarity", "end of section", "new section", "append"]

FITS = 0.1
"""How alike a snippet and a section must be for one to belong into the other; below, nothing fits."""
FITS_IN_MEANING = 0.45
"""The same where meaning is compared: vectors of any two texts have something in common."""
BLOCK_FITS = 0.12
OWN_HEADING = 3
"""How often a heading's words count, beside once for each word below it."""
MEANING = 0.5
MOST_MEANT = 64
"""Sections whose meaning is compared; of a page with more, those that have most words in common."""
MOST_HOLDING = 300
"""Documents that one text is compared with because of one word: a word that more of them have tells nothing."""
LONGEST_COMPARED = 8000
REMEMBERED = 2048
"""Texts, mostly sections and blocks, whose terms are kept."""

_REFERENCE = frozenset(
    name
    for names in (
        "see also, references, reference, further reading, links, external links, footnotes, notes and references",
        "bibliography, sources, related, related pages, related links, appendix, license, changelog",
        "siehe auch, quellen, verweise, weiterführende links, literatur, einzelnachweise, weblinks, voir aussi, véase también",
    )
    for name in names.split(", ")
)
_DEFINITION = re.compile(r" {0,3}\[[^\]\n]+\]:[ \t]*\S")
_SEE_ALSO = re.compile(r"[ *_]{0,3}(?:see (?:also|further)|further reading|siehe auch|voir aussi)\b", re.IGNORECASE)
_LEADS_IN = re.compile(r":[*_\s]*$")


class PageSection(NamedTuple):
    """A heading and what stands below it, as indexes of pieces; the first section of a page has no heading and level 0.

    `first` up to, not including, `end` are its own pieces, up to `last` those of the sections inside it too.
    """

    path: tuple[str, ...]
    level: int
    heading: int | None
    first: int
    end: int
    last: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where something new goes: after line `after_line` (from 1; 0 is the very beginning), into `section`.

    `score` is how alike it is to what decided, 0..1, and `runner_up` the section that came next, with its score; both None
    where likeness did not decide. `level` is that of the heading where a section is to be made, else 0.
    """

    section: tuple[str, ...]
    after_line: int
    how: How
    score: float | None = None
    runner_up: tuple[str, float] | None = None
    level: int = 0

    @property
    def reason(self) -> str:
        """Why here, as the end of a sentence."""
        name = f'"{section_name(self.section)}"' if self.section else "the beginning of the page"
        if self.how == "heading":
            return f"under {name}, which is named"
        if self.how == "append":
            return f"to the log, under {name}" if self.section else "to the log"
        if self.how == "similarity":
            return f"under {name}, which is most alike ({self._compared})"
        if self.how == "new section":
            near = f" after what is most alike ({self._compared})" if self.score is not None else ""
            return f"as a new section of level {self.level} in {name}{near}, since no heading of the page fits"
        return f"at the end of {name}, since nothing on the page is alike ({self._compared})"

    @property
    def _compared(self) -> str:
        best = f"{self.score:.2f}" if self.score is not None else "nothing to compare"
        if self.runner_up is None:
            return best
        name, score = self.runner_up
        return f'{best}, next "{name or "the beginning"}" {score:.2f}'


class PageSketch(NamedTuple):
    """What is known of a page without reading it whole."""

    path: str
    title: str
    headings: Sequence[str] = ()
    summary: str = ""
    lead: str = ""


class PageChoice(NamedTuple):
    """The page of a directory that a snippet belongs to, or None if none is alike; scores as they were compared."""

    path: str | None
    score: float
    runner_up: tuple[str, float] | None


def sections_of(page: CutDocument) -> tuple[PageSection, ...]:
    """Return the sections of `page` in order, what stands before the first heading included."""
    pieces = page.pieces
    body = 1 if pieces and pieces[0].kind == "front" else 0
    heads = [index for index, piece in enumerate(pieces) if piece.kind == "heading"]
    levels = [heading_level(pieces[index]) for index in heads]
    found = [PageSection((), 0, None, body, heads[0] if heads else len(pieces), len(pieces))]
    for number, (index, level) in enumerate(zip(heads, levels, strict=True)):
        own_end = heads[number + 1] if number + 1 < len(heads) else len(pieces)
        last = next(
            (heads[at] for at in range(number + 1, len(heads)) if levels[at] <= level),
            len(pieces),
        )
        found.append(PageSection(pieces[index].section, level, index, index + 1, own_end, last))
    return tuple(found)


def is_reference(section: PageSection, page: CutDocument) -> bool:
    """Return whether the section closes a page: where to read on, sources, or nothing but link definitions."""
    if section.path and section.path[-1].strip(" :").casefold() in _REFERENCE:
        return True
    own = [piece for piece in page.pieces[section.first : section.end] if piece.kind != "blank"]
    return section.heading is None and bool(own) and all(map(defines_links, own))


def defines_links(piece: DocumentPiece) -> bool:
    """Return whether a piece only closes a text: link definitions, footnotes, a line of where to read on."""
    if piece.kind == "paragraph" and _SEE_ALSO.match(piece.text):
        return True
    return piece.kind == "paragraph" and all(
        _DEFINITION.match(line)
        for line in piece.text.splitlines()
        if line.strip() and not line.startswith(("    ", "\t"))
    )


def swallows(piece: DocumentPiece) -> bool:
    """Return whether what is written after the piece becomes part of it: a fence or comment that is never closed."""
    if piece.kind not in ("fence", "html", "comment"):
        return False
    return cut(piece.text.rstrip("\r\n") + "\n\nx\n").pieces[-1].text != "x\n"


class Nearest(NamedTuple):
    """The section that a text is most like, how much, and what came next."""

    section: PageSection
    score: float
    runner_up: tuple[str, float] | None


class Placer:
    """Knows one page, and says where things belong in it."""

    def __init__(self, page: CutDocument, similarity: Similarity | None = None) -> None:
        self.page, self.similarity = page, similarity
        self.sections = sections_of(page)
        self.language = stemming_language(page.text)
        self.title = self._title_section()
        self._named: dict[tuple[str, ...], PageSection | None] = {}
        self._choices: dict[PageSection | None, tuple[Sequence[PageSection], _Vectors]] = {}
        self._blocks: dict[PageSection, tuple[Sequence[int], _Vectors]] = {}

    def named(self, path: Sequence[str]) -> PageSection | None:
        """Return the section that this heading path leads to, from the root or from anywhere; None unless it is only one."""
        key = tuple(path)
        if key not in self._named:
            self._named[key] = self._find_named(tuple(map(folded_heading, key)))
        return self._named[key]

    def _find_named(self, wanted: tuple[str, ...]) -> PageSection | None:
        if not wanted:
            return None
        # A snippet may name the page's title, or leave it out, as its first heading: then the last one has to do.
        last = self._by_last_heading.get(wanted[-1], ())
        for fits in (
            lambda path: path == wanted,
            lambda path: path[-len(wanted) :] == wanted,
            lambda _: True,
        ):
            found = [section for section, path in last if fits(path)]
            if len(found) == 1:
                return found[0]
            if found:
                return None
        same = self._by_heading_words.get(self._heading_words(wanted[-1]), ())
        return same[0] if len(same) == 1 else None

    @cached_property
    def _by_last_heading(self) -> Mapping[str, Sequence[tuple[PageSection, tuple[str, ...]]]]:
        found: dict[str, list[tuple[PageSection, tuple[str, ...]]]] = {}
        for section in self.sections:
            if section.path:
                path = tuple(map(folded_heading, section.path))
                found.setdefault(path[-1], []).append((section, path))
        return found

    @cached_property
    def _by_heading_words(self) -> Mapping[frozenset[str], Sequence[PageSection]]:
        found: dict[frozenset[str], list[PageSection]] = {}
        for heading, sections in self._by_last_heading.items():
            if words := self._heading_words(heading):
                found.setdefault(words, []).extend(section for section, _ in sections)
        return found

    def _heading_words(self, heading: str) -> frozenset[str]:
        return frozenset(analyzer(self.language).terms(heading))

    def best(self, text: str, *, hint: str = "", within: PageSection | None = None) -> Nearest:
        """Return the section that `text` is most like, how much, and what came next.

        `hint` are words that say what it is about; they count as a heading's do. `within` keeps to a section and those
        inside it.
        """
        if within not in self._choices:
            choice = [
                section
                for section in self.sections
                if _inside(section, within) and not is_reference(section, self.page)
            ]
            choice = choice or [within or self.sections[-1]]
            self._choices[within] = tuple(choice), _Vectors([self._vocabulary[section] for section in choice])
        among, vectors = self._choices[within]
        query = self._counted(text) + _times(self._counted(hint), OWN_HEADING)
        scores = vectors.cosines(query)
        order = sorted(scores, key=lambda index: (-scores[index], index))[:MOST_MEANT]
        if len(order) < MOST_MEANT:
            order += islice((index for index in range(len(among)) if index not in scores), MOST_MEANT - len(order))
        if self.similarity is not None:
            order.sort()
            meant = self.similarity(
                [f"{hint}\n{text}"[:LONGEST_COMPARED]], [self._text(among[index]) for index in order]
            )[0]
            for index, mean in zip(order, meant, strict=True):
                scores[index] = (1 - MEANING) * scores.get(index, 0.0) + MEANING * _from_meaning(mean)
            order.sort(key=lambda index: -scores[index])
        runner_up = (
            (section_name(among[order[1]].path), round(scores.get(order[1], 0.0), 4)) if len(order) > 1 else None
        )
        return Nearest(among[order[0]], round(scores.get(order[0], 0.0), 4), runner_up)

    @cached_property
    def _vocabulary(self) -> Mapping[PageSection, Counter[str]]:
        return {section: self._words_of(section) for section in self.sections}

    def _words_of(self, section: PageSection) -> Counter[str]:
        own = self._counted(self._body(section))
        above = self._counted(" ".join(section.path[:-1]))
        # The title of a page says what all of it is about.
        times = 1 if section is self.title else OWN_HEADING
        return own + above + _times(self._counted(" ".join(section.path[-1:])), times)

    def _body(self, section: PageSection) -> str:
        return "".join(piece.text for piece in self.page.pieces[section.first : section.end])[:LONGEST_COMPARED]

    def _text(self, section: PageSection) -> str:
        return f"{' '.join(section.path)}\n{self._body(section)}"[:LONGEST_COMPARED]

    def _counted(self, text: str) -> Counter[str]:
        return _counted(text[:LONGEST_COMPARED], self.language)

    def spot(self, section: PageSection, text: str) -> int:
        """Return after which piece of the section's own `text` belongs: the block it is most like, else the last."""
        own, vectors = self._blocks_of(section)
        if not own:
            return section.heading if section.heading is not None else section.first - 1
        scores = vectors.cosines(self._counted(text))
        best = max(scores, key=lambda at: (scores[at], at), default=-1)
        if best < 0 or scores[best] < BLOCK_FITS:
            return own[-1]
        return self.after_what_it_leads_to(own[best])

    def _blocks_of(self, section: PageSection) -> tuple[Sequence[int], _Vectors]:
        """Return the pieces of the section's own after which one may write, and what they say."""
        if section not in self._blocks:
            own = [
                index
                for index in range(section.first, section.end)
                if self.page.pieces[index].kind not in ("blank", "front") and not defines_links(self.page.pieces[index])
            ]
            while own and (self.page.pieces[own[-1]].kind == "break" or swallows(self.page.pieces[own[-1]])):
                own.pop()
            self._blocks[section] = own, _Vectors([self._counted(self.page.pieces[index].text) for index in own])
        return self._blocks[section]

    def most_like(self, text: str, pieces: Sequence[int]) -> int:
        """Return the piece of these that `text` is most like, the last if it is like none."""
        vectors = _Vectors([self._counted(self.page.pieces[index].text) for index in pieces])
        scores = vectors.cosines(self._counted(text))
        return pieces[max(scores, key=lambda at: (scores[at], at), default=-1)]

    def after_what_it_leads_to(self, piece: int) -> int:
        """Return the piece after which one may write without parting `these are:` from the list below it."""
        pieces = self.page.pieces
        while pieces[piece].kind == "paragraph" and _LEADS_IN.search(pieces[piece].text):
            following = piece + 1
            while following < len(pieces) and pieces[following].kind == "blank":
                following += 1
            if following == len(pieces) or pieces[following].kind in ("paragraph", "heading", "break"):
                break
            piece = following
        return piece

    def place(
        self,
        text: str,
        *,
        path: Sequence[str] = (),
        level: int = 0,
        hint: str = "",
        within: PageSection | None = None,
    ) -> Placement:
        """Return where `text` goes. `path` are the headings it came under, `level` that of the last; `within` was asked for."""
        if within is not None and not path:
            nearest = self.best(text, hint=hint, within=within)
            return self._in(nearest.section if nearest.score >= self._least else within, text, "heading")
        if (named := self.named(path)) is not None and _inside(named, within):
            return self._in(named, text, "heading")
        nearest = self.best(text, hint=" ".join((hint, *path[-1:])), within=within)
        if path:
            parent = self.named(path[:-1])
            held = parent is not None and _inside(parent, within)
            return self._new_section(nearest, (parent if held else within) or self.title, level)
        if nearest.score >= self._least:
            return self._in(nearest.section, text, "similarity", nearest)
        return self._in(self._last_of_the_body(), "", "end of section", nearest)

    @property
    def _least(self) -> float:
        """What a likeness must be to decide."""
        return FITS if self.similarity is None else FITS * (1 - MEANING) + 0.02

    def _in(self, section: PageSection, text: str, how: How, decided: Nearest | None = None) -> Placement:
        after = self.line_after(self.spot(section, text))
        if decided is None:
            return Placement(section.path, after, how)
        return Placement(section.path, after, how, decided.score, decided.runner_up)

    def line_after(self, piece: int) -> int:
        """Return the last line of that piece; 0 before the first."""
        if piece < 0:
            return 0
        found = self.page.pieces[piece]
        return found.line + len(split_lines(found.text)) - 1

    def _last_of_the_body(self) -> PageSection:
        return next((one for one in reversed(self.sections) if not is_reference(one, self.page)), self.sections[0])

    def _new_section(self, nearest: Nearest, parent: PageSection, level: int) -> Placement:
        """Return where a section that the page does not have is made: under its parent, after the sibling most like it."""
        usual = self._usual_level(parent)
        level = min(6, max(level, usual))
        near = nearest.section
        if nearest.score < self._least or near == parent or not _inside(near, parent):
            after = self.last_written(self._before_closing(parent), parent)
            return Placement(parent.path, self.line_after(after), "new section", level=usual)
        holders = [
            one for one in self.sections if 0 < one.level < level and _inside(near, one) and _inside(one, parent)
        ]
        holder = holders[-1] if holders and level > usual else parent
        level = max(usual, min(level, holder.level + 1)) if holder.level else usual
        siblings = [one for one in self.sections if one.level == level and _inside(near, one) and _inside(one, holder)]
        end = siblings[-1].last if siblings else self._before_closing(holder)
        after = self.line_after(self.last_written(end, holder))
        return Placement(holder.path, after, "new section", nearest.score, nearest.runner_up, level)

    def _title_section(self) -> PageSection:
        """Return the section that holds the whole page: that of its only heading of level 1, else the page itself."""
        tops = [section for section in self.sections if section.level == 1]
        return tops[0] if len(tops) == 1 and tops[0] is self.sections[1] else self.sections[0]

    def _usual_level(self, parent: PageSection) -> int:
        inside = [
            section.level
            for section in self.sections
            if section != parent and section.level and _inside(section, parent)
        ]
        return min(inside) if inside else min(6, parent.level + 1 if parent.level else 2)

    def _before_closing(self, parent: PageSection) -> int:
        """Return the index of the piece that closes `parent`: its reference-like sections at the end, or its own end."""
        end = parent.last
        inside = [one for one in self.sections if one.heading is not None and one != parent and _inside(one, parent)]
        for section in reversed(inside):
            if section.last == end and is_reference(section, self.page) and section.heading is not None:
                end = section.heading
        return end

    def last_written(self, end: int, parent: PageSection) -> int:
        """Return the last piece before `end` that shows something, link definitions and rules at the end left behind."""
        at = end - 1
        pieces = self.page.pieces
        while at >= parent.first and _closes(pieces[at]):
            at -= 1
        return at


def _closes(piece: DocumentPiece) -> bool:
    return piece.kind in ("blank", "break") or defines_links(piece) or swallows(piece)


def _inside(section: PageSection, holder: PageSection | None) -> bool:
    if holder is None or holder.heading is None:
        return True
    return section.heading is not None and holder.heading <= section.heading < holder.last


@lru_cache(REMEMBERED)
def folded_heading(text: str) -> str:
    """Return a heading as it is compared: without markup, case, numbering and closing colon."""
    bare = plain(text).casefold().strip(" :.")
    return re.sub(r"^\d+(?:\.\d+)*[.)]?\s+(?=\D)", "", bare)


def place(
    current: CutDocument,
    text: str,
    *,
    path: Sequence[str] = (),
    level: int = 0,
    hint: str = "",
    similarity: Similarity | None = None,
) -> Placement:
    """Return where `text` belongs on the page. `path` are the headings it came under, `level` that of the last of them."""
    return Placer(current, similarity).place(text, path=path, level=level, hint=hint)


def best_page(snippet: str, pages: Sequence[PageSketch], similarity: Similarity | None = None) -> PageChoice:
    """Return the page of these that `snippet` belongs to; its title and headings count more than its lead."""
    if not pages:
        return PageChoice(None, 0.0, None)
    language = stemming_language(snippet)
    terms = analyzer(language).terms

    def counted(text: str) -> Counter[str]:
        return Counter(terms(plain(text[:LONGEST_COMPARED])))

    described = [
        _times(counted(page.title), OWN_HEADING)
        + _times(counted(" ".join(page.headings)), OWN_HEADING - 1)
        + counted(f"{page.summary} {page.lead}")
        for page in pages
    ]
    scores = _cosines(counted(snippet), described)
    least = FITS
    if similarity is not None:
        told = [
            f"{page.title}. {page.summary} {' '.join(page.headings)} {page.lead}"[:LONGEST_COMPARED] for page in pages
        ]
        meant = similarity([snippet[:LONGEST_COMPARED]], told)[0]
        scores = [
            (1 - MEANING) * word + MEANING * _from_meaning(mean) for word, mean in zip(scores, meant, strict=True)
        ]
        least = FITS * (1 - MEANING) + 0.02
    order = sorted(range(len(pages)), key=lambda index: -scores[index])
    runner_up = (pages[order[1]].path, round(scores[order[1]], 4)) if len(order) > 1 else None
    best = round(scores[order[0]], 4)
    return PageChoice(pages[order[0]].path if best >= least else None, best, runner_up)


def _from_meaning(likeness: float) -> float:
    """Return a likeness in meaning on the scale of likeness in words: what any two texts have in common is nothing."""
    return max(0.0, (likeness - FITS_IN_MEANING) / (1 - FITS_IN_MEANING))


@lru_cache(REMEMBERED)
def _counted(text: str, language: str) -> Counter[str]:
    """Return how often each term stands in a text. Kept for the next time: nobody changes what this returns."""
    return Counter(analyzer(language).terms(plain(text)))


def _times(counts: Counter[str], times: int) -> Counter[str]:
    return Counter({term: count * times for term, count in counts.items()})


def _cosines(query: Counter[str], documents: Sequence[Counter[str]]) -> list[float]:
    """Return how alike `query` is to each document."""
    found = _Vectors(documents).cosines(query)
    return [found.get(number, 0.0) for number in range(len(documents))]


class _Vectors:
    """Documents as tf-idf vectors, counts damped by their logarithm, by their terms."""

    def __init__(self, documents: Sequence[Counter[str]]) -> None:
        holding = Counter(term for document in documents for term in document)
        self._weights = {term: math.log(1 + (len(documents) + 1) / (1 + count)) for term, count in holding.items()}
        self._unknown = math.log(2 + len(documents))
        self._lengths: list[float] = []
        self._holders: dict[str, list[tuple[int, float]]] = {}
        for number, document in enumerate(documents):
            told = self._vector(document)
            self._lengths.append(_length(told))
            for term, weight in told.items():
                self._holders.setdefault(term, []).append((number, weight))

    def cosines(self, query: Counter[str]) -> dict[int, float]:
        """Return the cosine of `query` with each document that has a word in common with it."""
        asked = self._vector(query)
        length = _length(asked)
        dots: dict[int, list[float]] = {}
        for term in sorted(asked, key=lambda term: len(self._holders.get(term, ()))):
            holders = self._holders.get(term, [])
            if len(holders) > MOST_HOLDING:
                if dots:
                    break
                holders = holders[-MOST_HOLDING:]
            for number, weight in holders:
                dots.setdefault(number, []).append(asked[term] * weight)
        return {number: math.fsum(products) / (length * self._lengths[number]) for number, products in dots.items()}

    def _vector(self, counts: Counter[str]) -> dict[str, float]:
        return {
            term: (1 + math.log(count)) * self._weights.get(term, self._unknown)
            for term, count in counts.items()
            if count > 0
        }


def _length(vector: Mapping[str, float]) -> float:
    return math.sqrt(math.fsum(weight * weight for weight in vector.values()))
