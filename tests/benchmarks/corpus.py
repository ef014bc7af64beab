"""Knowledge bases for measuring, made from real Markdown shapes by a seeded generator: the same seed, the same bytes.

python -m tests.benchmarks.corpus DIR --chunks N --seed 1
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.benchmarks.shapes import BLOCKS, paragraph
from tests.benchmarks.vocabulary import STEMS, TOPIC_EXPONENT, Topic, Vocabulary, Weighted, build, zipf

CHUNK_CHARACTERS = 900
"""Fitted to the way sections are cut; only the estimate of chunks depends on it."""
SECTIONS_MEDIAN, SECTIONS_SIGMA, SECTIONS_MOST = 5.0, 0.8, 150
WORDS_MEDIAN, WORDS_SIGMA, WORDS_MOST = 85.0, 0.6, 1_500
PAGES_A_DIRECTORY = 28
TWENTY = "handbook"
"""A directory with exactly 20 pages, for measuring a map of 20 children."""
QUERIES_A_KIND = 60
BOOK = ".corpus"
"""The dot folder beside the pages, which no indexer reads, that holds the labelled queries."""

KINDS = ("guide", "reference", "decision", "runbook", "note", "meeting")
SOURCES = ("official", "wiki", "code:service", "decision", "maintainer")


@dataclass(frozen=True, slots=True)
class Query:
    """A question with the page that answers it; `kind` says how it was made."""

    kind: str
    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files written, and their contents."""

    root: str
    seed: int
    documents: int
    estimated_chunks: int
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class _Page:
    path: str
    title: str
    text: str
    chunks: int
    phrase: str


def write(root: Path, chunks: int, seed: int = 1) -> Corpus:
    """Write about `chunks` chunks of Markdown under `root`, which must be new or empty, and return what was written."""
    if root.exists() and any(root.iterdir()):
        raise FileExistsError(f"{root} is not empty; a corpus is written into a new folder")
    rng = Random(seed)
    vocabulary = build(rng)
    chosen = _Reservoir(Random(seed + 1), QUERIES_A_KIND * 4)
    made: set[Path] = set()
    total = documents = 0
    for page in _pages(Random(seed + 2), vocabulary, chunks):
        target = root / page.path
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        target.write_bytes(_encoded(page.text, documents))
        total += page.chunks
        documents += 1
        chosen.offer(page)
    corpus = Corpus(str(root), seed, documents, total, tuple(_queries(Random(seed + 3), chosen.pages)))
    book = root / BOOK
    book.mkdir()
    (book / "corpus.json").write_text(json.dumps(asdict(corpus), ensure_ascii=False, indent=1), encoding="utf-8")
    return corpus


def load(root: Path) -> Corpus:
    """Return what `write` recorded about the corpus under `root`."""
    said = json.loads((root / BOOK / "corpus.json").read_text(encoding="utf-8"))
    return Corpus(**{**said, "root": str(root), "queries": tuple(Query(**query) for query in said["queries"])})


class _Reservoir:
    """A fair sample of pages, however many there are."""

    def __init__(self, rng: Random, size: int) -> None:
        self._rng, self._size, self._seen = rng, size, 0
        self.pages: list[_Page] = []

    def offer(self, page: _Page) -> None:
        if not page.phrase:
            return
        self._seen += 1
        if len(self.pages) < self._size:
            self.pages.append(page)
        elif (at := self._rng.randrange(self._seen)) < self._size:
            self.pages[at] = page


def _pages(rng: Random, vocabulary: Vocabulary, chunks: int) -> Iterator[_Page]:
    """Yield pages, directory by directory, until there are enough chunks."""
    writer = _Writer(rng, vocabulary)
    written = 0
    for page in writer.directory(TWENTY, vocabulary.topics[0], 20, SECTIONS_MEDIAN / 2):
        written += page.chunks
        yield page
    number = 0
    while written < chunks:
        topic = vocabulary.topics[number % len(vocabulary.topics)]
        directory = _directory_name(rng, topic, number // len(vocabulary.topics))
        number += 1
        for page in writer.directory(directory, topic, rng.randint(PAGES_A_DIRECTORY // 2, PAGES_A_DIRECTORY * 3 // 2)):
            if written >= chunks:
                return
            written += page.chunks
            yield page


def _directory_name(rng: Random, topic: Topic, round_: int) -> str:
    area = topic.name.split("-")[0]
    if round_ == 0:
        return f"{area}/{topic.name}"
    part = rng.choice(("notes", "guides", "archive", "projects", "teams"))
    return f"{area}/{topic.name}/{part}-{round_:03d}"


class _Writer:
    """Writes the pages of one corpus, one after the other, each linking to some before it."""

    def __init__(self, rng: Random, vocabulary: Vocabulary) -> None:
        self._rng, self._vocabulary = rng, vocabulary
        self._recent: list[str] = []

    def directory(self, path: str, topic: Topic, pages: int, sections: float = SECTIONS_MEDIAN) -> Iterator[_Page]:
        """Yield the map of a directory, which most have, and its pages."""
        if self._rng.random() < 0.8:
            yield self._map(path, topic)
        for number in range(pages):
            yield self._page(path, topic, number, sections)

    def _map(self, path: str, topic: Topic) -> _Page:
        words = [word.capitalize() for word in topic.name.split("-")]
        summary = " ".join(topic.words.draw(self._rng, 9))
        title = " ".join(words)
        text = f"---\ntitle: {title}\nsummary: {summary.capitalize()}.\n---\n# {title}\n\n{summary.capitalize()}.\n"
        return _Page(f"{path}/_index.md", title, text, 1, "")

    def _page(self, directory: str, topic: Topic, number: int, sections: float) -> _Page:
        rng = self._rng
        own = ["".join(rng.sample(STEMS, 2)) for _ in range(rng.randint(2, 3))]
        title_words = [*own, *topic.words.draw(rng, rng.randint(1, 3))]
        rng.shuffle(title_words)
        title = " ".join(title_words).capitalize()
        stem = "-".join(title_words[:3])
        path = f"{directory}/{stem}-{number}.md" if rng.random() < 0.85 else f"{directory}/{title} {number}.md"
        words = _page_words(own, topic)
        body, chunks, phrase = self._body(title, own, words, sections)
        self._recent = [*self._recent[-40:], path.removesuffix(".md")]
        return _Page(path, title, self._front_matter(title, topic) + body, chunks, phrase)

    def _front_matter(self, title: str, topic: Topic) -> str:
        """Return front matter in one of the ways people write it; one page in seven has none."""
        rng = self._rng
        if rng.random() < 0.14:
            return ""
        tags = sorted(set(topic.words.draw(rng, 3)))
        lines = ["---"]
        if rng.random() < 0.8:
            lines.append(f"title: {title}")
        if rng.random() < 0.5:
            lines.append(f"summary: {' '.join(topic.words.draw(rng, 8)).capitalize()}.")
        if rng.random() < 0.5:
            lines += ["tags:", *(f"  - {tag}" for tag in tags)]
        else:
            lines.append(f"tags: [{', '.join(tags)}]")
        if rng.random() < 0.6:
            lines.append(f"kind: {rng.choice(KINDS)}")
        if rng.random() < 0.3:
            lines.append(f"source: {rng.choice(SOURCES)}")
        if rng.random() < 0.4:
            lines.append(f"updated: 20{rng.randint(20, 26)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}")
        return "\n".join([*lines, "---", ""])

    def _body(self, title: str, own: Sequence[str], words: Weighted, median: float) -> tuple[str, int, str]:
        rng = self._rng
        count = min(SECTIONS_MOST, max(1, round(rng.lognormvariate(math.log(median), SECTIONS_SIGMA))))
        draw = partial(self._draw, words)
        lines, chunks, level, phrase = [f"# {title}", ""], 0, 1, ""
        for section in range(count):
            if section:
                level = min(4, max(2, level + rng.choice((-1, 0, 0, 1))))
                lines += [f"{'#' * level} {' '.join(draw(rng.randint(2, 5))).capitalize()}", ""]
            blocks = self._section(draw)
            if section == 0:
                phrase = _phrase(rng, own, draw)
                blocks.insert(0, [f"{phrase.capitalize()}."])
            for block in blocks:
                lines += [*block, ""]
            chunks += _expected_chunks(blocks)
        return "\n".join(lines), chunks, phrase

    def _section(self, draw: partial[list[str]]) -> list[list[str]]:
        """Return the blocks under one heading."""
        rng = self._rng
        left = min(WORDS_MOST, max(12, round(rng.lognormvariate(math.log(WORDS_MEDIAN), WORDS_SIGMA))))
        blocks: list[list[str]] = []
        while left > 0:
            if blocks and rng.random() < 0.35:
                block = rng.choice(BLOCKS)(rng, draw, self._recent)
                left -= 40
            else:
                length = min(left, rng.randint(25, 90))
                block = paragraph(rng, draw, self._recent, length)
                left -= length
            blocks.append(block)
        return blocks

    def _draw(self, words: Weighted, count: int) -> list[str]:
        """Return words, two in five of the page's topic, the rest as any text has them, in mixed order."""
        about = count * 2 // 5
        drawn = words.draw(self._rng, about) + self._vocabulary.common.draw(self._rng, count - about)
        self._rng.shuffle(drawn)
        return drawn


def _expected_chunks(blocks: Sequence[Sequence[str]]) -> int:
    chunks = size = 0
    for block in blocks:
        size += sum(map(len, block)) + len(block)
        if size >= CHUNK_CHARACTERS:
            chunks, size = chunks + 1, 0
    return chunks + (size > 0)


def _page_words(own: Sequence[str], topic: Topic) -> Weighted:
    """Return the topic's words with the page's own ones among the most frequent."""
    return zipf([*topic.words.words[:2], *own, *topic.words.words[2:]], TOPIC_EXPONENT)


def _phrase(rng: Random, own: Sequence[str], draw: partial[list[str]]) -> str:
    """Return a sentence that holds the page's own words, for a query that quotes it."""
    words = draw(9)
    for word in own[:2]:
        words.insert(rng.randrange(len(words)), word)
    return " ".join(words)


def _queries(rng: Random, pages: Sequence[_Page]) -> Iterator[Query]:
    """Yield as many queries of each kind, each with its page."""
    for number, page in enumerate(pages):
        words = page.title.lower().split()
        longest = max(words, key=len)
        others = [word for word in words if word != longest]
        if number % 4 == 0:
            yield Query("title", " ".join(words), page.path)
        elif number % 4 == 1:
            yield Query("phrase", " ".join(page.phrase.split()[1:8]), page.path)
        elif number % 4 == 2:
            yield Query("typo", " ".join([*others[:2], _misspelt(rng, longest)]), page.path)
        else:
            yield Query("prefix", " ".join([*others[:2], longest[: max(5, len(longest) * 2 // 3)]]), page.path)


def _misspelt(rng: Random, word: str) -> str:
    """Return `word` with two neighbouring letters inside it that differ exchanged, or one left out."""
    at = rng.randrange(1, len(word) - 2)
    if word[at] != word[at + 1] and rng.random() < 0.5:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at + 1 :]


def _encoded(text: str, number: int) -> bytes:
    """Return the file's bytes; some pages come from editors that write CR LF, or a byte order mark."""
    if number % 50 == 7:
        return text.replace("\n", "\r\n").encode()
    return b"\xef\xbb\xbf" + text.encode() if number % 100 == 11 else text.encode()


def main() -> None:
    """Write a corpus as the command line asks."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.corpus", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--chunks", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    started = time.perf_counter()
    corpus = write(args.directory, args.chunks, args.seed)
    took = time.perf_counter() - started
    size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(args.directory) for name in names)  # noqa: PTH118, PTH202 - walks 100,000 files
    print(
        f"{corpus.documents:,} pages, about {corpus.estimated_chunks:,} chunks, {size / 1e6:.1f} MB, "
        f"{len(corpus.queries)} labelled queries, in {took:.1f} s"
    )


if __name__ == "__main__":
    main()
