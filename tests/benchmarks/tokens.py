"""How many tokens a model reads until it has seen the answer, by three ways of searching.

    python -m tests.benchmarks.tokens kb=kb docs=FOLDER [--json FILE] [--write-doc]

- *whole files*: search, then read the whole file of hit 1, 2, ... until the quote was seen;
- *sections*: search, then read the section of hit 1, 2, ...;
- *circles*: a search with few hits; if no snippet has it, the page that `scent.next` names; then the next hits; then
  page by page: a short one is read, a long one is searched.

Each may make the same number of calls. Tokens are the characters of the answers' JSON text / 4.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import anyio

from tests.benchmarks.docs_corpus import quantiles, sizes
from tests.benchmarks.handbook import write_section
from tests.benchmarks.question_set import Labelled, load
from tests.benchmarks.served import Seen, Served, served

CALLS = 6
"""Tool calls that each way may make for one question: a search and five more."""
FEW = 4
"""Hits of the first search of the circles."""
MORE = 6
"""Hits of the next searches, which are narrower or continue the list."""
LONG_TOKENS = 1500
"""A longer page is searched instead of read."""
AT = (0.25, 0.5, 0.75, 0.95)
SIZES_AT = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
MOST_OF_WHOLE_FILES = 0.4
INTRODUCTION = f"""## Tokens

How much a model reads until it has seen the answer (`python -m tests.benchmarks.tokens kb=kb docs=FOLDER
--write-doc`): characters of the answers' JSON / 4, through the real tools, at most {CALLS} calls a question. `docs`
is public documentation, laid out by `python -m tests.benchmarks.docs_corpus FOLDER MIRROR...`;
`tests/benchmarks/questions/docs_corpus.json` names repositories, commits and folders. The questions, each
with the phrase that answers it, are beside it.

- *whole files*: search (limit 8), then read the whole page of hit 1, 2, ...; *sections*: then read the section
  of hit 1, 2, ...
- *circles*: search (limit {FEW}) and stop if a snippet has the answer; else what `scent.next` says; then the next
  {MORE} hits; then page by page, in their order: one of up to {LONG_TOKENS:,} tokens is read, in a longer one is searched
  with `path`.
- *or a snippet*: the same two methods for a model that also stops when a snippet of its first search has the
  answer.
""".splitlines()


@dataclass(frozen=True, slots=True)
class Found:
    """One way's calls and tokens for one question; `hit` is False if the answer was not seen within the calls."""

    id: str
    corpus: str
    way: str
    hit: bool
    tokens: int
    calls: int


Steps = AsyncIterator[tuple[str, dict[str, object]]]


class Reader:
    """A model that reads tools' answers and stops as soon as it has seen the answer."""

    def __init__(self, server: Served, asked: Labelled, *, snippets_count: bool) -> None:
        self._server, self._asked, self._snippets_count = server, asked, snippets_count
        self.tokens, self.calls, self.hit = 0, 0, False

    @property
    def may_go_on(self) -> bool:
        """Return whether the answer is still unseen and calls are left."""
        return not self.hit and self.calls < CALLS

    async def search(self, **arguments: object) -> dict[str, Any]:
        """Return the answer of kb_search; its snippets are checked if they count for this way."""
        seen = await self._call("kb_search", {"query": self._asked.question, **arguments})
        if self._snippets_count:
            self._look((hit["path"], hit["snippet"]) for hit in seen.said.get("hits", ()))
        return seen.said

    async def read(self, path: str, section: str | None = None, *, whole: bool = False) -> None:
        """Read a page, or a section; a long one page by page until the answer was seen, as one call."""
        offset: int | None = 0
        first = True
        while offset is not None and not self.hit:
            arguments: dict[str, object] = {"path": path, "offset": offset}
            arguments |= {"section": section} if section else {}
            arguments |= {"view": "full"} if whole else {}
            seen = await self._call("kb_read", arguments, counts=first)
            self._look([(seen.said.get("path", ""), seen.said.get("text", ""))])
            offset = seen.said.get("next_offset")
            first = False

    async def follow(self, step: str) -> str | None:
        """Take the step that an answer suggests, written as a call; return the page that is finished by it, if any."""
        tool, arguments = parsed(step) or ("", {})
        if not self.may_go_on:
            return None
        if tool == "kb_read":
            await self.read(**arguments)
            return None if "section" in arguments else str(arguments["path"])
        if tool == "kb_search":
            await self.search(**(arguments | {"limit": MORE}))
            return str(arguments["path"])
        return None

    async def _call(self, tool: str, arguments: dict[str, object], *, counts: bool = True) -> Seen:
        seen = await self._server.call(tool, **arguments)
        self.tokens += seen.tokens
        self.calls += counts
        return seen

    def _look(self, texts: Any) -> None:
        self.hit = self.hit or any(self._asked.answered_by(path, text) for path, text in texts)


async def whole_files(reader: Reader) -> None:
    """Search, then read every page found from beginning to end."""
    answer = await reader.search()
    for path in dict.fromkeys(hit["path"] for hit in answer["hits"]):
        if reader.may_go_on:
            await reader.read(path, whole=True)


async def sections(reader: Reader) -> None:
    """Search, then read every section found."""
    answer = await reader.search()
    for path, section in dict.fromkeys((hit["path"], hit["section"]) for hit in answer["hits"]):
        if reader.may_go_on:
            await reader.read(path, section)


async def circles(reader: Reader) -> None:
    """Search for few hits and take the suggested step; then see further hits, and go page by page."""
    answer = await reader.search(limit=FEW)
    done = await reader.follow(answer["scent"]["next"])
    pages = list(answer["pages"])
    if reader.may_go_on and answer["next_cursor"]:
        pages += (await reader.search(limit=MORE, cursor=answer["next_cursor"]))["pages"]
    for page in pages:
        if reader.may_go_on and page["kind"] == "document" and page["path"] != done:
            if (page["tokens"] or 0) <= LONG_TOKENS:
                await reader.read(page["path"], whole=True)
            else:
                await reader.search(path=page["path"], limit=MORE)


WAYS: dict[str, tuple[Callable[[Reader], Awaitable[None]], bool]] = {
    "whole files": (whole_files, False),
    "sections": (sections, False),
    "circles": (circles, True),
    "whole files, or a snippet": (whole_files, True),
    "sections, or a snippet": (sections, True),
}
"""Each way, and whether an answer in a snippet ends the search; the first two read on to be sure."""


def parsed(step: str) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and arguments of a suggested step that begins with a call, `kb_read('a.md', section='B')`."""
    for end in range(len(step), 0, -1):
        if step[end - 1] != ")":
            continue
        try:
            call = ast.parse(step[:end], mode="eval").body
        except SyntaxError:
            continue
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            named = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
            if call.args:
                named["query" if call.func.id == "kb_search" else "path"] = ast.literal_eval(call.args[0])
            return call.func.id, named
    return None


async def measure(corpora: dict[str, Path]) -> list[Found]:
    """Return every way's cost for every question that has an answer."""
    found = []
    for corpus, folder in corpora.items():
        async with served(folder) as server:
            for asked in load(corpus):
                for way, (go, snippets_count) in WAYS.items():
                    if asked.answerable:
                        reader = Reader(server, asked, snippets_count=snippets_count)
                        await go(reader)
                        found.append(Found(asked.id, corpus, way, reader.hit, reader.tokens, reader.calls))
    return found


def table(found: Sequence[Found]) -> list[str]:
    """Return a Markdown table: a line for each way and corpus, and for all together."""
    lines = [
        "| corpus | way | answers seen | tokens, mean | " + " | ".join(f"{q:.0%}" for q in AT) + " | calls |",
        "| --- | --- | ---: | ---: |" + " ---: |" * (len(AT) + 1),
    ]
    corpora = list(dict.fromkeys(one.corpus for one in found))
    for corpus in [*corpora, "all"] if len(corpora) > 1 else corpora:
        for way in WAYS:
            these = [one for one in found if one.way == way and corpus in (one.corpus, "all")]
            spent = sorted(one.tokens for one in these)
            cells = [f"{mean(one.hit for one in these):.0%}", f"{mean(spent):,.0f}"]
            cells += [f"{value:,.0f}" for value in quantiles(spent, AT)] + [f"{mean(one.calls for one in these):.1f}"]
            lines.append(f"| {corpus} | {way} | " + " | ".join(cells) + " |")
    return lines


def page_sizes(corpora: dict[str, Path]) -> list[str]:
    """Return a Markdown table of the page lengths of each corpus."""
    lines = [
        "| corpus | pages | " + " | ".join(f"tokens of a page, {q:.0%}" for q in SIZES_AT) + " |",
        "| --- |" + " ---: |" * (len(SIZES_AT) + 1),
    ]
    for name, folder in corpora.items():
        pages = sizes(folder)
        lines.append(
            f"| {name} | {len(pages):,} | " + " | ".join(f"{q:,.0f}" for q in quantiles(pages, SIZES_AT)) + " |"
        )
    return lines


def kept(found: Sequence[Found]) -> bool:
    """Return whether the circles keep their promise: tokens against both other ways, at no fewer answers seen."""
    spent, seen = _sums(found)
    return (
        spent["circles"] <= MOST_OF_WHOLE_FILES * spent["whole files"]
        and spent["circles"] <= spent["sections"]
        and seen["circles"] >= max(seen["whole files"], seen["sections"])
    )


def verdict(found: Sequence[Found]) -> str:
    """Return the sentence that compares the circles with the other ways."""
    spent, seen = _sums(found)
    said = [
        f"{spent['circles'] / spent[way]:.0%} of the tokens of {way} ({seen[way]} seen)"
        for way in WAYS
        if way != "circles"
    ]
    return f"The circles see {seen['circles']} answers with " + ", ".join(said) + "."


def _sums(found: Sequence[Found]) -> tuple[dict[str, int], dict[str, int]]:
    spent = {way: sum(one.tokens for one in found if one.way == way) for way in WAYS}
    return spent, {way: sum(one.hit for one in found if one.way == way) for way in WAYS}


def main() -> int:
    """Measure and print the table; 1 if the circles break their promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tokens", description=__doc__)
    parser.add_argument("corpora", nargs="+", metavar="CORPUS=FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what each question needed there")
    parser.add_argument("--write-doc", action="store_true", help="write the section of the handbook")
    args = parser.parse_args()
    corpora = {name: Path(folder).absolute() for name, _, folder in (given.partition("=") for given in args.corpora)}
    found = anyio.run(measure, corpora)
    lines = [*page_sizes(corpora), "", *table(found), "", verdict(found)]
    print("\n".join(lines))
    if args.json:
        rows = [{"id": o.id, "way": o.way, "hit": o.hit, "tokens": o.tokens, "calls": o.calls} for o in found]
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.write_doc:
        write_section("tokens", [*INTRODUCTION, "", *lines])
    return 0 if kept(found) else 1


if __name__ == "__main__":
    sys.exit(main())
