"""How likely each page answers, and the verdict on an answer: whether it is probably enough, and the next call if not. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.pages.map_view import MapEntry
from knowledge.search.answers import Scent, ScentLevel
from knowledge.search.query.analysis import USUAL_LANGUAGES, is_stop_word
from knowledge.search.ranking.ranker import Ranking
from knowledge.search.scent.signs import HALF, ScentSigns

BIAS = -5.07
WEIGHTS = {
    "agreement": 1.26,
    "pairs": 1.88,
    "gap": 2.85,
    "lead": 2.77,
    "title": 3.99,
    "coverage": 2.82,
    "unknown": -1.1,
}
SUFFICIENT_FROM = 0.843
BELOW_SUFFICIENT = SUFFICIENT_FROM - 0.001
LOST_BELOW = 0.12
"""Weights of a logistic model, by sign, and its thresholds. Decision record 17 says what they were fitted on."""
NAMED = 0.97
"""The probability that a page with exactly the requested name is the one that was meant."""
LATER_BIAS = -2.55
LATER = {"place": 0.06, "behind": -4.61, "agreement": 3.01}
"""Weights of a logistic model for the pages after the first, by sign; `python -m tests.benchmarks.calibration --fit` fits them."""
DIGITS = 3
"""Decimal places of a score; the level follows from the score as shown."""
MOST_SHARING = 20
"""Pages of one name that are looked up."""
SUREST = 0.999
ENOUGH_WORDS = 4
"""From this many words on, a question's coverage and title count in full: a page that has the only word of a question may be about
anything."""
FEW_WORDS = 6
"""Up to so many words a question has no other wording: a page needs half of them to be `sufficient`."""
LEVEL = 0.02
"""The distance by words, as a share of the highest score, up to which another page counts as level with the first."""
MOST_COVERED, FEW_PAIRS = 0.85, 0.35
"""A section with a smaller share of the question's words and of its neighbours, on a page whose title has none of the words, may be
about something else."""
ENOUGH_COVERED = 0.7
"""From this share of the question's words on, coverage counts in full: a question in own words has some that the answer lacks."""


FULL = 0.95
LONGEST_STEP = 150
MOST_WORDS = 4
SHORTEST_WORD = 4
MOST_MISSING = 3
FIRST_PAGES = 3
"""Pages whose directories decide which map is read next."""
_WORD = re.compile(rf"[^\W\d_]{{{SHORTEST_WORD},}}")


@dataclass(frozen=True, slots=True)
class ShownChunk:
    """A shown chunk as the next step needs it, with its page's title; `short` if the page is short enough to be read whole."""

    path: str
    section: str
    short: bool = False
    title: str = ""


def chance(signs: ScentSigns) -> float:
    """Return the probability, 0..1, that the page of the first chunk answers the question."""
    weighed = sum(WEIGHTS[name] * value for name, value in strengths(signs).items())
    return 1 / (1 + math.exp(-(BIAS + weighed)))


def strengths(signs: ScentSigns) -> dict[str, float]:
    """Return the value of each sign in `WEIGHTS`."""
    values: dict[str, float] = {name: getattr(signs, name) for name in WEIGHTS}
    long = min(1.0, signs.words / ENOUGH_WORDS)
    values["coverage"] = long * min(1.0, signs.coverage / ENOUGH_COVERED)
    values["title"] *= long
    return values


def score_of(signs: ScentSigns) -> float:
    """Return the score of the first page, 0..1: the probability that it answers."""
    if signs.exact:
        # Whatever has the requested name is what was requested; if several have it, each may be.
        return round(max(NAMED / signs.sharing, LOST_BELOW), DIGITS)
    says_more = signs.is_unspaced or min(signs.words, signs.written or signs.words) > FEW_WORDS
    covers = signs.coverage >= HALF or (says_more and signs.coverage)
    is_aside = signs.is_section and signs.pairs < FEW_PAIRS and signs.coverage < MOST_COVERED
    # Pages that have the only word of a question, or a few of its words aside from their subject, may be about anything. If another
    # page has as much of the words, it may be that one.
    is_level = signs.by_both and signs.lead <= LEVEL
    is_elsewhere = signs.names_another or signs.lacks_distinct_word or signs.compares or signs.which_of_series
    # Properties often describe something else on the page: `referred_by: Bjarne Moe` beside an email address.
    is_unsure = (
        signs.is_stub
        or signs.needs_properties
        or is_elsewhere
        or is_level
        or (not signs.title and (signs.words == 1 or is_aside))
    )
    most = SUREST if covers and not is_unsure else BELOW_SUFFICIENT if signs.coverage else LOST_BELOW / 2
    # That all words are on one page speaks for it, even if others come near, and so does that it has most of them and both engines
    # rank it first. A page with few words of a short question may be about something else, and one with none has only its nearness in
    # meaning to speak for it.
    is_named = signs.is_similar_name or signs.is_mentioned or signs.which_of_series
    is_best_by_all = signs.by_both and signs.agreement == 1 and signs.coverage >= HALF
    least = LOST_BELOW if signs.coverage >= FULL or is_best_by_all or is_named else 0.0
    return round(max(least, min(chance(signs), most)), DIGITS)


def page_scores(signs: ScentSigns, ranking: Ranking) -> dict[int, float]:
    """Return the probability, 0..1, that each page answers, by document, in the order of `ranking`.

    From one page to the next, it never increases.
    """
    scores: dict[int, float] = {}
    least = score_of(signs)
    for doc, seq, found in later_signs(ranking):
        if scores and seq not in ranking.exact:
            weighed = sum(LATER[name] * value for name, value in found.items())
            least = min(least, round(1 / (1 + math.exp(-(LATER_BIAS + weighed))), DIGITS))
        scores[doc] = least
    return scores


def later_signs(ranking: Ranking) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield each page of `ranking`, best first: its document, its best chunk, and the values of the signs in `LATER`.

    `place` is the logarithm of its place; `behind` is the distance of its rank score from the first page's, as a share
    of the first page's; `agreement` is how high both engines rank its best chunk, as for the first page.
    """
    places = [{hit.seq: place for place, hit in enumerate(found, 1)} for found in (ranking.keyword, ranking.vectors)]
    best: dict[int, int] = {}
    for seq in ranking.ranked:
        best.setdefault(ranking.rows[seq].doc, seq)
    top = max(ranking.scores.get(ranking.ranked[0], 0.0), 1e-9) if best else 1.0
    for place, (doc, seq) in enumerate(best.items(), 1):
        yield (
            doc,
            seq,
            {
                "place": math.log(place),
                "behind": 1 - ranking.scores.get(seq, 0.0) / top,
                "agreement": sum(1 / at[seq] for at in places if seq in at) / len(places),
            },
        )


def level_of(signs: ScentSigns, score: float | None = None, *, indexed: bool = True) -> ScentLevel:
    """Return the level of an answer with these signs whose first page has `score`, by default that of the best page.

    The level is `partial` while pages are missing from the index: the best page may be one of them.
    """
    score = score_of(signs) if score is None else score
    if score >= SUFFICIENT_FROM and (indexed or signs.exact):
        return "sufficient"
    return "partial" if score >= LOST_BELOW or not indexed else "lost"


def judge(
    signs: ScentSigns,
    shown: Sequence[ShownChunk],
    *,
    indexed: bool,
    directory: str,
    navigation: bool = False,
    continued: float | None = None,
    filtered_out: bool = False,
) -> Scent:
    """Return the scent of an answer with the chunks `shown`, best first, from a search in `directory`.

    With `navigation` the question asks for a page and not for a passage, so the next call reads that page. `continued` is the score of
    the first shown page if better chunks were shown before. `filtered_out` if no page passes the filters of the search.
    """
    if not shown:
        found = "no page passes the filters" if filtered_out else "nothing matches"
        waiting = "" if indexed else "; indexing is not finished, so ask again soon"
        step = "repeat without the filters, or change them" if filtered_out else f"kb_map({_directory_of(directory)!r})"
        return Scent("lost" if indexed else "partial", f"{found}{waiting}", step)
    level = level_of(signs, continued, indexed=indexed)
    reason = _reason(signs, level, indexed=indexed, continued=continued is not None)
    if level == "sufficient":
        named = signs.exact and continued is None
        return Scent(level, "a page or section has this name" if named else reason, read_call(shown[0]))
    if signs.exact and continued is None and level == "partial":
        several = f"{signs.sharing}{' or more' if signs.sharing >= MOST_SHARING else ''}"
        return Scent(level, f"{several} pages or sections have this name", read_call(shown[0]))
    if level == "partial":
        look = read_call(shown[0]) if navigation else _look_inside(shown[0], signs.asked, directory)
        return Scent(level, reason, look)
    return Scent(level, reason, _look_around(shown, signs.asked))


def at_place(scent: Scent, place: MapEntry, *, named: bool, namesakes: int = 0) -> Scent:
    """Return the scent of an answer to a question for `place`: the next call is its map, or the page.

    `named` if a passage of the page comes first because of its name; otherwise the page has none. `namesakes` are the other
    directories of that name among the answer's pages.
    """
    if place.kind == "directory":
        # A few of its children are shown, which may suffice or not.
        level: ScentLevel = "partial" if namesakes or scent.level == "lost" else scent.level
        name = f"{place.path!r}" if place.path else "the knowledge base"
        others = "; `pages` lists other folders of this name" if namesakes else ""
        return Scent(level, f"the question asks what is in {name}{others}", f"kb_map({place.path!r})")
    if not named:
        return Scent("partial", "the page with this name is empty", f"kb_read({place.path!r})")
    reason = "a page has this name" if scent.level == "sufficient" else scent.reason
    return Scent(scent.level, reason, f"kb_read({place.path!r})")


def at_folder(folder: MapEntry) -> Scent:
    """Return the scent of an answer that is lost, to a question that has the name of a folder: the next call is the folder's map."""
    return Scent("partial", f"the question names the folder {folder.path!r}", f"kb_map({folder.path!r})")


def at_tag(scent: Scent, tag: str, pages: int) -> Scent:
    """Return the scent of an answer to a question for the pages with a tag: the next call is the tag's map."""
    have = "1 page has" if pages == 1 else f"{pages} pages have"
    return Scent("partial" if scent.level == "lost" else scent.level, f"{have} this tag", f"kb_map({f'#{tag}'!r})")


def _reason(signs: ScentSigns, level: ScentLevel, *, indexed: bool, continued: bool) -> str:
    reasons = ["these are later results; the best ones came first"] if continued else list(_comparisons(signs, level))
    if signs.missing:
        reasons.append("no hit has " + ", ".join(map(repr, signs.missing[:MOST_MISSING])))
    if signs.similar and not continued:
        reasons.append("similar words were searched: " + ", ".join(map(repr, signs.similar[:MOST_MISSING])))
    if not indexed:
        reasons.append("indexing is not finished, so the best page may be missing")
    return "; ".join(reasons)


def _comparisons(signs: ScentSigns, level: ScentLevel) -> Iterator[str]:
    """Yield how much of the question the best page has, compared with other pages and by both engines."""
    if signs.is_mentioned or signs.names_another:
        yield f"the question names {'the best' if signs.is_mentioned else 'another'} page"
    if signs.which_of_series:
        yield f"judging by the file names, this is the {signs.which_of_series} such page"
    if signs.compares:
        yield "the question asks for two things"
    yield from _coverage_of(signs)
    if signs.needs_properties:
        yield "some of the match is only in the page's front matter"
    elif level != "sufficient" and signs.coverage >= HALF and signs.lead <= LEVEL:
        yield "other pages match as well"
    if not signs.by_both:
        return
    if signs.agreement < HALF:
        yield "keyword and semantic search disagree"
    elif signs.agreement == HALF:
        yield "keyword and semantic search rank different pages first"
    elif level != "lost":  # there it would read as praise
        yield "keyword and semantic search agree"


def _coverage_of(signs: ScentSigns) -> Iterator[str]:
    """Yield how much of the question the best page has, unless `missing` says it."""
    if signs.coverage >= FULL:
        yield "one page has all the words asked for"
    elif signs.words > 1:
        share = "most" if signs.coverage >= HALF else "few" if signs.coverage else "none"
        yield f"the best page has {share} of the words asked for"
    elif signs.coverage:
        yield "the best page only has a similar word"
    elif not signs.missing:
        yield "the best page does not have the word"


def read_call(chunk: ShownChunk) -> str:
    """Return the call that reads the section; a heading path that is too long is cut from the front."""
    whole = f"kb_read({chunk.path!r})"
    if chunk.short or not chunk.section:
        return whole
    headings = chunk.section.split(" > ")
    calls = (f"kb_read({chunk.path!r}, section={' > '.join(headings[i:])!r})" for i in range(len(headings)))
    return next((call for call in calls if len(call) <= LONGEST_STEP), whole)


def _look_inside(chunk: ShownChunk, asked: str, directory: str) -> str:
    """Return the call that finds more on the page: read a short page, search a long one unless that was just done."""
    step = f"kb_search({asked!r}, path={chunk.path!r})"
    return read_call(chunk) if chunk.short or not asked or chunk.path == directory or len(step) > LONGEST_STEP else step


def _look_around(shown: Sequence[ShownChunk], asked: str) -> str:
    """Return the call for the map where the first pages are, with words from the titles of its pages to ask with."""
    best = _directory_of_most([*dict.fromkeys(chunk.path for chunk in shown)][:FIRST_PAGES])
    # Headings below the title are the same on many pages (`Question`, `Examples`), and a word that was asked for helps nobody.
    titles = dict.fromkeys(chunk.title for chunk in shown if best in _directories_above(chunk.path))
    known = {word[:SHORTEST_WORD] for word in _WORD.findall(asked.lower())}
    used = [
        word
        for word in dict.fromkeys(word for title in titles for word in _WORD.findall(title.lower()))
        if word[:SHORTEST_WORD] not in known and not is_stop_word(word, USUAL_LANGUAGES)
    ]
    call = f"kb_map({best!r})"
    # As many words as fit: the length of a next step is bounded, because the answer's tokens are.
    for count in range(min(len(used), MOST_WORDS), 0, -1):
        step = f"{call} (its pages are about {', '.join(used[:count])})"
        if len(step) <= LONGEST_STEP:
            return step
    return call


def _directory_of_most(pages: Sequence[str]) -> str:
    """Return the deepest directory with more than half of `pages`.

    The directory of the first page alone is the wrong one for a third of the answers that are lost.
    """
    having = Counter(directory for page in pages for directory in _directories_above(page))
    # Two such directories share a page, so one is inside the other.
    return max((directory for directory, count in having.items() if 2 * count > len(pages)), key=len)


def _directories_above(page: str) -> Sequence[str]:
    """Return the directories that the page is in, the deepest first, and the whole knowledge base (`""`) last."""
    names = page.split("/")
    return ["/".join(names[:depth]) for depth in reversed(range(len(names)))]


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0] if path.endswith((".md", ".markdown", ".mdx")) else path
