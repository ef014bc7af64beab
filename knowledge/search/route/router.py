"""How a question is taken: rules for the clear cases, its wording and its nearest labelled examples for the rest."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import anyio

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.ports import Embedder
from knowledge.search.route.examples import Example, Examples, plain, shipped_examples, team_examples
from knowledge.search.route.phrases import NAMES, RouteSigns, signs, values
from knowledge.search.route.route_kind import NAMED, Mode, QuestionRoute, by_rules
from knowledge.search.route.second_opinion import UNSURE, RouteAdviser, SecondOpinion, shots
from knowledge.search.route.words import HOW, INSIDE, LIST, PROBLEM, WORDS
from knowledge.state.ports import IndexPosition, IndexStore, NameMatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from knowledge.search.route.neighbours import Neighbours

log = logging.getLogger(__name__)

FRONT_PAGE: Final = "_index.md"
"""The page whose front matter may hold a team's examples."""
VERY_NEAR: Final = 0.9
"""Cosine from which a team's example decides alone."""
MOST_SURE: Final = 0.97
CALLS_UNTIL_RETRY: Final = 64
MOST_PLACE_WORDS: Final = 6
MOST_NEAR: Final = 24
"""Examples among which those are chosen that a second opinion is shown."""

FrontMatter = Callable[[], Awaitable[Mapping[str, object]]]
"""Returns what the front matter of the root `_index.md` says now; empty if there is none."""

_WORD = re.compile(r"[^\s,;:!?¿¡\"'`()]+")
_ABOUT = frozenset(["about", "on", "for", "zum", "zur", "zu", "über", "sobre", "acerca", "sur", "à", "su", "over"])
_ARTICLES = frozenset(
    [
        "the",
        "our",
        "my",
        "a",
        "an",
        "der",
        "die",
        "das",
        "dem",
        "den",
        "des",
        "ein",
        "eine",
        "einem",
        "unser",
        "unsere",
        "el",
        "la",
        "los",
        "las",
        "un",
        "una",
        "nuestro",
        "le",
        "les",
        "il",
        "lo",
        "gli",
        "o",
        "os",
        "as",
        "de",
        "het",
        "een",
        "all",
        "alle",
        "todos",
        "todas",
        "tous",
        "toutes",
    ]
)
_KINDS = frozenset(
    [
        "folder",
        "directory",
        "section",
        "page",
        "area",
        "ordner",
        "verzeichnis",
        "bereich",
        "seite",
        "carpeta",
        "directorio",
        "sección",
        "página",
        "dossier",
        "répertoire",
        "rubrique",
        "pasta",
        "diretório",
        "seção",
        "cartella",
        "sezione",
        "pagina",
        "map",
        "sectie",
    ]
)

_BEFORE_NAMES = _ARTICLES | _KINDS


class Router:
    """Says of each question whether it is about a place or an idea, how surely, and by what sign.

    `index` tells which names exist; `front_matter` brings a team's examples, asked for again when the page changed. `opinion` is
    asked about questions that neither rules nor examples nor weights are sure of.
    """

    def __init__(
        self, index: IndexStore, front_matter: FrontMatter | None = None, opinion: RouteAdviser | None = None
    ) -> None:
        self._index, self._front_matter = index, front_matter
        self._second = SecondOpinion(opinion) if opinion is not None else None
        self._position: IndexPosition | None = None
        self._revision: str | None = ""
        self._team = Examples()
        self._exact: dict[str, Example] = {}
        self._neighbours: Neighbours | None = None
        self._prepared_for: tuple[str, tuple[Example, ...]] | None = None
        self._lock = anyio.Lock()
        self._calls_until_retry = 0

    @property
    def problems(self) -> Sequence[str]:
        """Return one sentence for each entry of the team's examples that could not be used."""
        return self._team.problems

    async def prepare(self, embedder: Embedder) -> None:
        """Let questions be compared with the examples as `embedder` sees them; free when nothing has changed.

        An embedder that is away is asked again later; until then the wording alone decides.
        """
        wanted = (embedder.name, self._team.examples)
        if wanted == self._prepared_for or self._lock.locked():
            return
        if self._calls_until_retry:
            self._calls_until_retry -= 1
            return
        async with self._lock:
            from knowledge.search.route.neighbours import embedded

            try:
                self._neighbours = await embedded(embedder, shipped_examples(), self._team.examples)
            except EmbedderUnavailable as error:
                self._neighbours, self._calls_until_retry = None, CALLS_UNTIL_RETRY
                log.info("questions are routed by their wording alone: %s", error)
                return
            self._prepared_for = wanted

    async def route(
        self, query: str, mode: Mode, *, named: Sequence[NameMatch], vector: NDArray[np.float32] | None
    ) -> QuestionRoute:
        """Return the route of `query`.

        `named` is what bears the whole query as its name; `vector` is the query's, if it has one already, by the
        embedder that was prepared last.
        """
        if mode != "auto":
            return QuestionRoute(mode, 1.0, "asked for")
        await self._look_for_team_examples()
        if self._exact and (example := self._exact.get(plain(query))):
            return QuestionRoute(example.mode, 0.99, "your team gave this question as an example")
        if named:
            return NAMED
        seen = signs(query)
        known = (
            self._neighbours.near(vector) if self._neighbours and vector is not None and self._team.examples else None
        )
        if known and known.similarity >= VERY_NEAR:
            return QuestionRoute(
                known.example.mode, 0.95, f"it is close to your team's example `{known.example.query}`"
            )
        if ruled := by_rules(seen):
            return ruled
        if place := await self._place_in(query, seen):
            return QuestionRoute("navigation", MOST_SURE, f"`{place}` is a place here")
        own = weighed(seen, self._neighbours.leaning(vector) if self._neighbours and vector is not None else 0.0)
        if self._second is None or own.confidence >= UNSURE:
            return own
        near = self._neighbours.nearest(vector, MOST_NEAR) if self._neighbours and vector is not None else []
        return await self._second.on(query, own, shots(self._team.examples, near))

    async def _look_for_team_examples(self) -> None:
        """Take over what the front matter of the root page says, if the page was indexed anew since the last question."""
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

    async def _place_in(self, query: str, seen: RouteSigns) -> str:
        """Return the part of `query` that names a directory or page of this knowledge base; an empty text if none does."""
        if seen.groups & (PROBLEM | HOW) or not seen.groups & (INSIDE | LIST):
            return ""
        phrase = place_phrase(query)
        if not phrase:
            return ""
        if await self._index.directory(phrase.casefold().replace(" ", "-")) or await self._index.named(phrase, limit=1):
            return phrase
        return ""


def place_phrase(query: str) -> str:
    """Return what may be a name in `query`: what follows `in`, `under`, `of`, `about`, or the verb that opens or lists."""
    words = _WORD.findall(query)
    said = [word.casefold() for word in words]
    after = [n + 1 for n, word in enumerate(said) if word in _ABOUT or WORDS.get(word, 0) & INSIDE]
    if not after and said and WORDS.get(said[0], 0) & LIST:
        after = [1]
    if not after:
        return ""
    start, end = after[0], len(words)
    while start < end - 1 and (said[start] in _BEFORE_NAMES or WORDS.get(said[start], 0) & INSIDE):
        start += 1
    while end > start + 1 and said[end - 1] in _KINDS:
        end -= 1
    return " ".join(words[start:end]).rstrip("./") if 0 < end - start <= MOST_PLACE_WORDS else ""


def weighed(seen: RouteSigns, leaning: float) -> QuestionRoute:
    """Return the route that the fitted weights give to the signs of a question and to its neighbours' `leaning` (-1..1)."""
    weights = _weights()
    shares = [value * weight for value, weight in zip(values(seen), weights, strict=True)]
    shares[-1] = leaning * weights[-1]
    odds = sum(shares)
    sure = 1 / (1 + math.exp(-abs(odds)))
    mode = "navigation" if odds > 0 else "discovery"
    return QuestionRoute(
        "navigation" if odds > 0 else "discovery", round(min(sure, MOST_SURE), 2), _reason(shares, odds, mode)
    )


def _reason(shares: Sequence[float], odds: float, mode: str) -> str:
    """Return the two signs that spoke loudest for what was decided."""
    side = 1 if odds > 0 else -1
    # The bias is no sign, and neither is a length.
    told = sorted(
        ((share * side, name) for share, name in zip(shares, NAMES, strict=True) if name not in _SILENT), reverse=True
    )
    loud = [name for share, name in told[:2] if share > 0.1]
    if "neighbours" in loud:
        loud = [name for name in loud if name != "neighbours"]
        like = "questions about places" if mode == "navigation" else "questions about ideas"
        return "; ".join([f"it is like {like}", *(f"wording: {name}" for name in loud)])
    return (
        f"wording: {', '.join(loud)}" if loud else "nothing in it names a place" if side < 0 else "it reads like a name"
    )


_SILENT: Final = frozenset({"bias", "length", "short"})


@cache
def _weights() -> tuple[float, ...]:
    """Return the weight of each sign, as fitted by `python -m tests.benchmarks.routing fit`."""
    stored = json.loads(files("knowledge.search.route").joinpath("route_weights.json").read_text(encoding="utf-8"))
    return tuple(float(stored["weights"][name]) for name in NAMES)
