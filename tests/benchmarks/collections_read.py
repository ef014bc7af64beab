"""Test collections as they are published, read into one shape.

For measuring only; none of them is a part of this project.

`read(path)` -> a `Collection`. `path` is a work tree or a bare git directory (at HEAD), whose files show what it holds:
Cranfield (`data/cran/`), NPL (`npl/`), the BEIR form (`corpus.jsonl`), or Markdown pages, whose own headings are then
the questions.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowledge.pages.document import parse
from knowledge.pages.markdown.inline import without_attributes
from knowledge.search.query.analysis import is_part_of_a_run

CRANFIELD, NPL, BEIR = "data/cran/cran.all.1400", "npl/doc-text", "corpus.jsonl"
BEIR_JUDGEMENTS = ("qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv", "qrels.tsv")
MOST_OF_A_PAGE = 2
"""Headings of one page that become questions."""
FEWEST_WORDS = 3
FEWEST_UNSPACED = 8
"""The fewest letters that a heading in a script without spaces needs."""
FEWEST_LETTERS_BELOW = 200
"""A section with less text contains nothing by which its missing heading could be found."""
SEED = 1


@dataclass(frozen=True, slots=True)
class Page:
    """A document of a collection. `text` may be Markdown."""

    title: str
    text: str

    @property
    def markdown(self) -> str:
        """Return it as a page of a knowledge base."""
        return f"# {self.title}\n\n{self.text}\n" if self.title else f"{self.text}\n"


@dataclass(frozen=True, slots=True)
class Collection:
    """Pages and questions by their ids, and for each question how well the relevant pages answer it (above 0)."""

    name: str
    pages: Mapping[str, Page]
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, float]]


class UnknownCollection(Exception):
    """A folder holds no collection in a known form."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"no collection in {path}: looked for {CRANFIELD}, {NPL}, {BEIR} and Markdown pages")


def read(path: Path) -> Collection:
    """Return the collection at `path`.

    Raises: UnknownCollection: it has no known form.
    """
    files = _Files(path)
    names = frozenset(files.names())
    if CRANFIELD in names:
        return _cranfield(files)
    if NPL in names:
        return _npl(files)
    if BEIR in names:
        return _beir(files, names)
    if pages := sorted(name for name in names if name.endswith(".md")):
        return _handbook(files, pages)
    raise UnknownCollection(path)


class _Files:
    """The files of a work tree, or of the newest commit of a bare git directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bare = (path / "HEAD").is_file() and (path / "objects").is_dir()

    def names(self) -> list[str]:
        if self._bare:
            return self._git("ls-tree", "-r", "-z", "--name-only", "HEAD").decode().strip("\0").split("\0")
        return [found.relative_to(self.path).as_posix() for found in self.path.rglob("*") if found.is_file()]

    def text(self, name: str) -> str:
        raw = self._git("show", f"HEAD:{name}") if self._bare else (self.path / name).read_bytes()
        # Not by `splitlines`: JSON strings may contain U+2028, which it takes for the end of a line.
        return raw.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n") + "\n"

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", "-C", str(self.path), *arguments], capture_output=True, check=True).stdout


def _cranfield(files: _Files) -> Collection:
    """Return Cranfield with a grade of 4 for a complete answer (code 1 in its files) down to 1 for minimum interest (4).

    Its judgements number the queries by position, not by their own numbers; `-1` is no code.
    """
    pages = {
        fields["I"]: Page(_line(fields.get("T", "")), _lines(fields.get("W", "")))
        for fields in _records(files.text(CRANFIELD))
    }
    queries = {
        str(place): _line(fields["W"]) for place, fields in enumerate(_records(files.text("data/cran/cran.qry")), 1)
    }
    judged = [line.split() for line in files.text("data/cran/cranqrel").splitlines()]
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for query, page, code in judged:
        if int(code) > 0:
            grades[query][page] = 5.0 - int(code)
    return Collection("cranfield", pages, queries, grades)


def _records(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields (`.T`, `.W`, ...) of each record (`.I`) by their letter."""
    for record in re.split(r"^\.I ", text, flags=re.MULTILINE)[1:]:
        number, *rest = re.split(r"^\.([A-Z])\n", record, flags=re.MULTILINE)
        # If a field is there twice, the first counts: one record ends with the remains of another.
        yield {"I": number.strip(), **dict(reversed(list(zip(rest[::2], rest[1::2], strict=True))))}


def _npl(files: _Files) -> Collection:
    """Return NPL. It knows only relevant and not."""
    pages = {number: Page("", text) for number, text in _slashed(files.text(NPL))}
    queries = {number: _line(text).lower() for number, text in _slashed(files.text("npl/query-text"))}
    grades = {number: dict.fromkeys(text.split(), 1.0) for number, text in _slashed(files.text("npl/rlv-ass"))}
    return Collection("npl", pages, queries, grades)


def _slashed(text: str) -> Iterator[tuple[str, str]]:
    """Yield number and text of each record; a line with nothing but a slash ends one."""
    for record in re.split(r"^[ \t]*/[ \t]*$", text, flags=re.MULTILINE):
        number, _, rest = record.strip().partition("\n")
        if number.strip().isdigit():
            yield number.strip(), _lines(rest)


def _beir(files: _Files, names: frozenset[str]) -> Collection:
    """Return a collection in the form of BEIR, with the judgements of its test part if it has several."""
    judgements = next((name for name in BEIR_JUDGEMENTS if name in names), None)
    if judgements is None:
        raise UnknownCollection(files.path)
    pages = {row["_id"]: Page(_line(row.get("title") or ""), row["text"]) for row in _rows(files.text(BEIR))}
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for line in files.text(judgements).strip().split("\n")[1:]:
        query, page, grade = line.split("\t")
        if float(grade) > 0:
            grades[query][page] = float(grade)
    queries = {row["_id"]: row["text"] for row in _rows(files.text("queries.jsonl")) if row["_id"] in grades}
    return Collection(files.path.name, pages, queries, grades)


def _rows(text: str) -> Iterator[dict[str, str]]:
    return (json.loads(line) for line in text.split("\n") if line.strip())


def _handbook(files: _Files, names: Sequence[str]) -> Collection:
    """Return Markdown pages; some of their headings are removed and become questions, and their page is the answer."""
    chance = random.Random(SEED)
    pages: dict[str, Page] = {}
    queries: dict[str, str] = {}
    grades: dict[str, Mapping[str, float]] = {}
    for name in names:
        lines = files.text(name).splitlines()
        able = list(_askable(name, lines))
        for line, heading in chance.sample(able, min(len(able), MOST_OF_A_PAGE)):
            lines[line] = ""
            question = f"{name}:{line + 1}"
            queries[question], grades[question] = heading, {name: 1.0}
        pages[name] = Page("", "\n".join(lines))
    return Collection(files.path.resolve().name, pages, queries, grades)


def _askable(name: str, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield line and text of the headings (except the first, the title) that are informative and followed by text."""
    headings = parse(name, "\n".join(lines).encode()).headings
    ends = [*(heading.line - 1 for heading in headings), len(lines)][1:]
    for heading, end in list(zip(headings, ends, strict=True))[1:]:
        text = without_attributes(heading.path[-1])
        below = sum(map(len, lines[heading.line : end]))
        if _is_telling(text) and below >= FEWEST_LETTERS_BELOW and text in lines[heading.line - 1]:
            yield heading.line - 1, text


def _is_telling(heading: str) -> bool:
    return len(heading.split()) >= FEWEST_WORDS or sum(map(is_part_of_a_run, heading)) >= FEWEST_UNSPACED


def _line(text: str) -> str:
    return " ".join(text.split())


def _lines(text: str) -> str:
    """Return the lines without leading and trailing spaces: in Markdown an indented line may be code."""
    return "\n".join(line.strip() for line in text.strip().splitlines())
