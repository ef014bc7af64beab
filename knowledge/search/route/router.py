"""Routes a question: rules decide clear cases; fitted weights over its wording and its nearest examples decide the rest."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import anyio
import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.ports import Embedder
from knowledge.search.answers import QuestionRoute, RouteMode, SearchMode
from knowledge.search.query.only_names import SaidName, said_names
from knowledge.search.route.examples import Example, Examples, plain, shipped_examples, team_examples
from knowledge.search.route.second_opinion import UNSURE, RouteAdviser, SecondOpinion, shots
from knowledge.search.route.signs import RouteSigns, by_rules, sign_values, signs
from knowledge.search.route.words import HOW, PROBLEM
from knowledge.state.document_names import number_key
from knowledge.state.ports import IndexPosition, IndexStore, NameMatch

log = logging.getLogger(__name__)

FRONT_PAGE: Final = "_index.md"
"""The page whose front matter may contain a team's examples."""
VERY_NEAR: Final = 0.9
"""Cosine from which a team's example alone decides."""
MOST_SURE: Final = 0.97
CALLS_UNTIL_RETRY: Final = 64
LONGEST_FOLDER: Final = 2
"""The most words of a question that may be nothing but a folder's name."""
MOST_NEAR: Final = 24
"""Nearest examples from which those shown to the language model are chosen."""
ENDPOINT: Final = "endpoint:"
"""How the names of embedders at an endpoint begin."""
NEIGHBOURS: Final = 7
"""The weights were fitted with this number and the power below; a change of either needs `tests.benchmarks.routing fit`."""
SHARPNESS: Final = 2
"""An example counts by its cosine to this power."""

FrontMatter = Callable[[], Awaitable[Mapping[str, object]]]
"""Returns the current front matter of the root `_index.md`; empty if the page does not exist."""

_NO_REASON = frozenset({"bias", "length", "short"})
"""Signs that explain nothing to a reader."""

_CONTENTS = re.compile(r"what do(?:es)? (?:the )?(\S+)(?: folder| directory)? contain\s*\??$", re.IGNORECASE)


class Router:
    """Decides for each question whether it is about a place or an idea, with a confidence and a reason.

    `index` knows the names of this knowledge base. `front_matter` provides a team's examples and is read again when the
    page changes. `opinion` is asked if neither rules nor examples nor weights are sure.
    """

    def __init__(
        self, index: IndexStore, front_matter: FrontMatter | None = None, opinion: RouteAdviser | None = None
    ) -> None:
        self._index, self._front_matter = index, front_matter
        self._second = SecondOpinion(opinion) if opinion is not None else None
        self._team, self._exact = Examples(), dict[str, Example]()
        self._position: IndexPosition | None = None
        self._revision: str | None = None
        self._neighbours: Neighbours | None = None
        self._prepared_for: tuple[str, tuple[Example, ...]] | None = None
        self._lock = anyio.Lock()
        self._calls_until_retry = 0

    @property
    def problems(self) -> Sequence[str]:
        """One sentence for each of the team's examples that could not be used."""
        return self._team.problems

    async def prepare(self, embedder: Embedder) -> None:
        """Embed the examples with `embedder`, unless that is done already.

        If the embedder is unavailable, it is tried again later; until then the wording alone decides. With an endpoint it always does.
        """
        if embedder.name.startswith(ENDPOINT):
            # Each process would send hundreds of examples there, and its first question would wait for them.
            self._neighbours = self._prepared_for = None
            return
        wanted = (embedder.name, self._team.examples)
        # If another search is embedding the examples, this one does not wait and is routed by its wording.
        if wanted == self._prepared_for or self._lock.locked():
            return
        if self._calls_until_retry:
            # Retrying at every search would delay each one until the embedder has failed again.
            self._calls_until_retry -= 1
            return
        async with self._lock:
            try:
                self._neighbours = await embedded(embedder, shipped_examples(), self._team.examples)
            except EmbedderUnavailable as error:
                self._neighbours, self._calls_until_retry = None, CALLS_UNTIL_RETRY
                log.info("questions are routed by their wording alone: %s", error)
                return
            self._prepared_for = wanted

    async def route(
        self, query: str, mode: SearchMode, *, named: Sequence[NameMatch], vector: NDArray[np.float32] | None
    ) -> QuestionRoute:
        """Return the route of `query`.

        The first of these that applies decides: the mode that the caller chose; a team's example with the same words; a page or
        section with exactly the query's name (`named`); a team's example that is very near; a directory that the query is the name of
        or asks for, or a page that it asks for by its number; a rule; a place here that the query names; the fitted weights, or the
        language model if those are unsure. `vector` is the query's, from the embedder that was prepared last.
        """
        if mode != "auto":
            return QuestionRoute(mode, 1.0, "`mode` was set")
        await self._read_team_examples()
        if self._exact and (example := self._exact.get(plain(query))):
            return QuestionRoute(example.mode, 0.99, "your team gave this question as an example")
        if named:
            return QuestionRoute("navigation", 0.95, "a page or section has this name")
        seen = signs(query)
        neighbours = self._neighbours if vector is not None else None
        if neighbours is not None and vector is not None and self._team.examples:
            known = neighbours.nearest_of_team(vector)
            if known and known.similarity >= VERY_NEAR:
                reason = f"it is close to your team's example `{known.example.query}`"
                return QuestionRoute(known.example.mode, 0.95, reason)
        said = said_names(query)
        place = await self._contents_of(query) or await self._folder_in(said) or await self._numbered_page_in(said)
        if not place and (ruled := by_rules(seen)):
            return ruled
        if place or (place := await self._place_in(query, said, seen)):
            return QuestionRoute("navigation", MOST_SURE, f"`{place}` is a place here")
        leaning = 0.0 if neighbours is None or vector is None else neighbours.leaning(vector)
        own = weighed(seen, leaning)
        if self._second is None or own.confidence >= UNSURE:
            return own
        near = [] if neighbours is None or vector is None else neighbours.nearest(vector, MOST_NEAR)
        return await self._second.on(query, own, shots(self._team.examples, near))

    async def _read_team_examples(self) -> None:
        """Read the front matter of the root page, if that was indexed again since the last question."""
        if self._front_matter is None or (position := await self._index.position()) == self._position:
            return
        record = await self._index.document(FRONT_PAGE)
        revision = record.revision if record else None
        if revision != self._revision:
            self._team = team_examples(await self._front_matter() if record else {})
            self._exact = {plain(example.query): example for example in self._team.examples}
            for problem in self._team.problems:
                log.warning("%s: %s", FRONT_PAGE, problem)
            if self._second is not None:
                self._second.forget()
        self._position, self._revision = position, revision

    async def _contents_of(self, query: str) -> str:
        """Return the directory whose contents `query` asks for, or an empty string: `what does docs/topics contain`."""
        asked = _CONTENTS.match(query.strip())
        path = asked[1].strip("`'\"").strip("/") if asked else ""
        return path if path and await self._index.directory(path) else ""

    async def _folder_in(self, said_names: Sequence[SaidName]) -> str:
        """Return the name of a folder that a question consists of, or that it asks for as a folder; else an empty string."""
        for said in said_names:
            # To look costs a tenth of a millisecond for a thousand folders, and most questions of more words name none.
            is_name = said.bare and said.kind == "any" and said.name.count(" ") < LONGEST_FOLDER
            spellings = {said.name.strip("/"), said.name.replace(" ", "-")}
            if (is_name or said.kind == "directory") and await self._index.directories_ending(spellings, limit=1):
                return said.name
        return ""

    async def _numbered_page_in(self, said_names: Sequence[SaidName]) -> str:
        """Return the name with a number by which a question asks for a page, or an empty string: `what does ADR 14 say`."""
        for said in said_names:
            if said.kind != "directory" and (number := number_key(said.name)):
                for key in (number, said.name):
                    named = await self._index.named(key, limit=1)
                    if named and named[0].by != "heading":
                        return said.name
        return ""

    async def _place_in(self, query: str, said_names: Sequence[SaidName], seen: RouteSigns) -> str:
        """Return the part of `query` that names a directory or page of this knowledge base, or an empty string."""
        for said in said_names:
            if said.bare:
                continue
            # `why is the cache slow` names a place here, and is not about it; `open the error reference` is.
            if seen.groups & (PROBLEM | HOW) and signs(query.replace(said.name, " ")).groups & (PROBLEM | HOW):
                continue
            if await self._index.directory(said.name.casefold().replace(" ", "-")):
                return said.name
            if said.kind != "directory" and await self._index.named(said.name, limit=1):
                return said.name
        return ""


def weighed(seen: RouteSigns, leaning: float) -> QuestionRoute:
    """Return the route by the fitted weights of a question's signs and of its nearest examples' `leaning` (-1..1)."""
    weights = _weights()
    shares = {name: value * weights[name] for name, value in sign_values(seen, leaning).items()}
    odds = sum(shares.values())
    mode: RouteMode = "navigation" if odds > 0 else "discovery"
    sure = 1 / (1 + math.exp(-abs(odds)))
    return QuestionRoute(mode, round(min(sure, MOST_SURE), 2), _reason(shares, mode))


def _reason(shares: Mapping[str, float], mode: RouteMode) -> str:
    """Return the two signs that contributed most to the decision, as a sentence about the question."""
    side = 1 if mode == "navigation" else -1
    ordered = sorted(((share * side, name) for name, share in shares.items() if name not in _NO_REASON), reverse=True)
    loud = [name for share, name in ordered[:2] if share > 0.1]
    like = "resembles questions about places" if mode == "navigation" else "resembles questions about ideas"
    # One may say more than the other: `names a kind of place and no problem`.
    loud = [name for name in loud if not any(other != name and other.startswith(name) for other in loud)]
    if loud:
        return f"it {', and it '.join(like if name == 'neighbours' else name for name in loud)}"
    return "it reads like a name" if mode == "navigation" else "it names no page or folder"


@cache
def _weights() -> dict[str, float]:
    """Return the weight of each sign, as fitted by `python -m tests.benchmarks.routing fit`."""
    stored = json.loads(files("knowledge.search.route").joinpath("route_weights.json").read_text(encoding="utf-8"))
    return {name: float(weight) for name, weight in stored["weights"].items()}


# --- the nearest examples ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NearestExample:
    """The team's example that is nearest to a question, and the cosine between them."""

    example: Example
    similarity: float


class Neighbours:
    """Examples with their vectors, one row each, of length 1 or 0. A vector of another embedder has no neighbours."""

    def __init__(self, shipped: Sequence[Example], team: Sequence[Example], rows: NDArray[np.float32]) -> None:
        self._team, self._all = tuple(team), (*team, *shipped)
        self._rows = np.ascontiguousarray(rows)
        sides = [1.0 if example.mode == "navigation" else -1.0 for example in self._all]
        self._sides = np.array(sides, np.float32)

    def nearest_of_team(self, vector: NDArray[np.float32]) -> NearestExample | None:
        """Return the nearest of the team's examples, or None."""
        if not self._team or vector.shape != self._rows.shape[1:]:
            return None
        cosines = self._rows[: len(self._team)] @ vector
        best = int(cosines.argmax())
        return NearestExample(self._team[best], float(cosines[best]))

    def nearest(self, vector: NDArray[np.float32], most: int) -> list[Example]:
        """Return at most `most` examples, nearest first."""
        if vector.shape != self._rows.shape[1:]:
            return []
        return [self._all[at] for at in np.argsort(self._rows @ vector)[::-1][:most]]

    def leaning(self, vector: NDArray[np.float32], *, without: int | None = None) -> float:
        """Return -1..1: whether the nearest examples are about places (1) or ideas (-1), weighted by nearness.

        `without` leaves out one row, so that an example can be judged by the others.
        """
        if vector.shape != self._rows.shape[1:]:
            return 0.0
        cosines = self._rows @ vector
        if without is not None:
            cosines[without] = -1.0
        best = np.argpartition(cosines, -NEIGHBOURS)[-NEIGHBOURS:]
        nearness = np.maximum(cosines[best], 0) ** SHARPNESS
        return float(nearness @ self._sides[best]) / NEIGHBOURS


async def embedded(embedder: Embedder, shipped: Sequence[Example], team: Sequence[Example]) -> Neighbours:
    """Return the examples with their vectors; raises `EmbedderUnavailable` as the embedder does."""
    return Neighbours(shipped, team, await embedder.embed([example.query for example in (*team, *shipped)]))
