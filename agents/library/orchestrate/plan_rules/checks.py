"""The kinds of rules for plans. Each is one function that yields the places where a plan breaks the rule. Pure.

To add a kind, write the function and name it in `KINDS` with its arguments and the placeholders of its message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from agents.engine.events import Json
from agents.engine.evidence.quote_check import contains_quote
from agents.engine.work.form import ids
from agents.engine.work.gaps import folded, listing, short
from agents.library.orchestrate.plan_rules.durations import UNITS, durations_in, in_words, limits_in, seconds_of
from agents.library.orchestrate.plan_rules.order import Needs, behind, circles, doable, longest, serving
from agents.library.orchestrate.record import VALIDATING, Item, Undertaking, list_in, text_in

Arguments = Mapping[str, Json]
Form = Literal["word", "words", "number", "duration"]
LISTS = ("steps", "requirements", "left_out")
WHOLE = "plan"
TEXTS_KEPT = 2_048
"""How many texts are cached as words: many rules look for many words in the same steps."""
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """One place where a plan breaks a rule: the id it is about, and the texts for the placeholders of the rule's message."""

    about: str
    told: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Argument:
    """The required type of a rule's argument. `among` lists the allowed values; () allows any."""

    form: Form
    needed: bool = False
    among: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of rule. `tells` are the placeholders of its message, in addition to `about`."""

    check: Callable[[Undertaking, Arguments], Iterator[FoundProblem]]
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    tells: tuple[str, ...] = ()


# --- fields -----------------------------------------------------------------------------------------------------------


def _items(u: Undertaking, of: str) -> Sequence[Item]:
    lists = {"steps": u.steps, "requirements": u.requirements, "left_out": u.left_out, WHOLE: [{**u.plan, "id": WHOLE}]}
    return lists[of]


def _value(item: Item, path: str) -> Json:
    """Return the value of a field or of `details.NAME`, or None."""
    name, _, inner = path.partition(".")
    value = item.get(name)
    if not inner:
        return value
    return value.get(inner) if isinstance(value, Mapping) else None


def _text(item: Item, path: str) -> str:
    value = _value(item, path)
    return value.strip() if isinstance(value, str) else ""


def required(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """Each item has text in each of the fields."""
    for item in _items(u, a["of"]):
        for path in a["fields"]:
            value = _value(item, path)
            if not (value.strip() if isinstance(value, str) else value):
                yield FoundProblem(item["id"], {"field": path})


def count(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """The number of items is from `least` to `most`."""
    number = len(_items(u, a["of"]))
    if number < a.get("least", 0):
        yield FoundProblem(a["of"], {"count": str(number), "wanted": f"at least {a['least']}"})
    if number > a.get("most", number):
        yield FoundProblem(a["of"], {"count": str(number), "wanted": f"at most {a['most']}"})


def length(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """A text that is not empty has from `least` to `most` words."""
    for item in _items(u, a["of"]):
        if words := len(_text(item, a["field"]).split()):
            wanted = [f"at least {a['least']}"] if words < a.get("least", 0) else []
            wanted += [f"at most {a['most']}"] if words > a.get("most", words) else []
            for one in wanted:
                yield FoundProblem(item["id"], {"field": a["field"], "count": str(words), "wanted": one})


def words(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """A text that is not empty has one of the words in `any_of`, and none of `none_of`."""
    for item in _items(u, a["of"]):
        text = _text(item, a["field"])
        if not text:
            continue
        for word in a.get("none_of", ()):
            if _says(text, word):
                yield FoundProblem(item["id"], {"field": a["field"], "word": word})
        wanted = a.get("any_of", ())
        if wanted and not any(_says(text, word) for word in wanted):
            yield FoundProblem(item["id"], {"field": a["field"], "word": listing(wanted)})


def _says(text: str, word: str) -> bool:
    return _spaced(word) in _spaced(text)


@lru_cache(maxsize=TEXTS_KEPT)
def _spaced(text: str) -> str:
    """Return the words of a text with spaces around each, so that a substring search finds only whole words."""
    return f" {folded(text)} "


# --- ids and references to them ---------------------------------------------------------------------------------------


def distinct(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """No id occurs twice in these lists, and no two items of one list say the same in the field."""
    where: dict[str, str] = {}
    for of in a["of"]:
        first: dict[str, str] = {}
        for item in _items(u, of):
            if item["id"] in where:
                yield FoundProblem(item["id"], {"other": where[item["id"]], "what": "has the same id as another item"})
            where[item["id"]] = of
            text = folded(_text(item, a["field"])) if a.get("field") else ""
            before = first.setdefault(text, item["id"]) if text else item["id"]
            if before != item["id"]:
                yield FoundProblem(item["id"], {"other": before, "what": f"says the same as {before}"})


def known(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """The field names only ids of that list."""
    there = set(ids(_items(u, a["in"])))
    for item in _items(u, a["of"]):
        if lost := [id_ for id_ in list_in(item, a["field"]) if id_ not in there]:
            yield FoundProblem(item["id"], {"field": a["field"], "lost": listing(lost), "in": a["in"]})


def covered(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """Each requirement is covered by a step that can be done."""
    possible = set(doable(_needs(u)))
    steps = {step["id"]: set(list_in(step, "covers")) for step in u.steps}
    for item in u.requirements:
        by = [id_ for id_, covers in steps.items() if item["id"] in covers]
        if len(set(by) & possible) < a.get("least", 1):
            yield FoundProblem(item["id"], {"text": short(text_in(item, "text")) or "no text", "by": _by(by, possible)})


def _by(steps: Sequence[str], possible: Collection[str]) -> str:
    if not steps:
        return "by no step"
    doable_ones = [step for step in steps if step in possible]
    return f"by {listing(doable_ones)} alone" if doable_ones else f"only by {listing(steps)}, which can never be done"


def reused(u: Undertaking, _a: Arguments) -> Iterator[FoundProblem]:
    """A step that is already done has not changed its meaning since the plan was valid."""
    before = u.works.get(VALIDATING, {}).get("validated", {})
    for step in u.steps:
        if step["id"] in u.done and before.get(step["id"], digest(step)) != digest(step):
            yield FoundProblem(step["id"])


def digest(step: Item) -> str:
    """Return a digest of the step's meaning, ignoring case and punctuation."""
    # Models write lone halves of surrogate pairs. Twelve digits suffice, as only versions of one step are compared.
    return sha256(folded(text_in(step, "step")).encode("utf-8", "surrogatepass")).hexdigest()[:12]


# --- the order of steps -----------------------------------------------------------------------------------------------


def _needs(u: Undertaking) -> Needs:
    return {step["id"]: list_in(step, "depends_on") for step in u.steps}


def no_circle(u: Undertaking, _a: Arguments) -> Iterator[FoundProblem]:
    """No step waits for itself, directly or through others."""
    for circle in circles(_needs(u)):
        yield FoundProblem(circle[0], {"circle": " -> ".join(_middle_out(circle))})


def _middle_out(circle: Sequence[str]) -> Sequence[str]:
    return circle if len(circle) <= 12 else [*circle[:6], f"... {len(circle) - 12} more ...", *circle[-6:]]


def can_begin(u: Undertaking, _a: Arguments) -> Iterator[FoundProblem]:
    """No step waits for one that can never be done. Steps that are themselves wrong are reported by other rules."""
    needs = _needs(u)
    possible = set(doable(needs))
    at_fault = {id_ for circle in circles(needs) for id_ in circle}
    at_fault |= {id_ for id_, before in needs.items() if not set(before) <= needs.keys()}
    for id_, before in needs.items():
        if id_ not in possible and id_ not in at_fault:
            yield FoundProblem(id_, {"waits_for": listing([one for one in before if one not in possible])})


def useful(u: Undertaking, _a: Arguments) -> Iterator[FoundProblem]:
    """Each step covers a requirement, or is needed by a step that does."""
    there = set(ids(u.requirements))
    ends = [step["id"] for step in u.steps if there & set(list_in(step, "covers"))]
    serves = serving(_needs(u), ends)
    for step in u.steps:
        if step["id"] not in serves:
            yield FoundProblem(step["id"], {"text": short(text_in(step, "step"), 80) or "no text"})


def before(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """Each step with one of the words in `then` depends on a step with one of the words in `first`."""
    first = {step["id"] for step in u.steps if any(_says(_text(step, "step"), word) for word in a["first"])}
    after = first | behind(_needs(u), first)
    for step in u.steps:
        word = next((word for word in a["then"] if _says(_text(step, "step"), word)), None)
        if word and step["id"] not in after:
            yield FoundProblem(step["id"], {"word": word, "first": listing(a["first"])})


def together(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """If a step has one of the words in `where`, some step has one of the words in `also`."""
    said = [step for step in u.steps if any(_says(_text(step, "step"), word) for word in a["where"])]
    if said and not any(_says(_text(step, "step"), word) for step in u.steps for word in a["also"]):
        yield FoundProblem(said[0]["id"], {"also": listing(a["also"])})


# --- time -------------------------------------------------------------------------------------------------------------


def durations(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """Each duration that is given can be read, and is from `least` to `most`."""
    for step in u.steps:
        text = _text(step, "duration")
        took = seconds_of(text) if text else None
        if text and not took:
            yield FoundProblem(
                step["id"], {"duration": short(text, 60), "why": f"it is not a duration: write a number with {UNITS}"}
            )
        if took and took < a.get("least", 0):
            yield FoundProblem(step["id"], {"duration": text, "why": f"it is less than {in_words(a['least'])}"})
        if took and took > a.get("most", took):
            yield FoundProblem(step["id"], {"duration": text, "why": f"it is more than {in_words(a['most'])}"})


def total(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """The total of all steps, or of the longest chain of dependent steps, stays within the limit."""
    lasting = {step["id"]: seconds_of(_text(step, "duration")) or 0.0 for step in u.steps}
    of_rule = a.get("most")
    limit = (of_rule, "this rule") if of_rule else (u.limit.seconds, u.limit.source) if u.limit else (None, "")
    if limit[0] is None:
        return
    took, what = sum(lasting.values()), "all steps together"
    if a.get("along") == "longest_chain":
        took, chain = longest(_needs(u), lasting)
        what = f"the steps of the longest chain, {' -> '.join(_middle_out(chain))},"
    if took > limit[0]:
        told = {"what": what, "total": in_words(took), "limit": in_words(limit[0]), "of": limit[1]}
        yield FoundProblem(WHOLE, {**told, "longest": _dearest(lasting)})


def _dearest(lasting: Mapping[str, float]) -> str:
    most = sorted(lasting.items(), key=lambda one: -one[1])[:3]
    return ", ".join(f"{id_} {in_words(seconds)}" for id_, seconds in most)


def limit_holds(u: Undertaking, _a: Arguments) -> Iterator[FoundProblem]:
    """The limit is a duration, and a limit set by the plan quotes words of the brief that say the same."""
    limit = u.limit
    if limit is None:
        return
    if not limit.seconds:
        yield FoundProblem(WHOLE, {"why": f"{short(limit.text, 60)!r} is not a duration: write a number with {UNITS}"})
    elif limit.source == "the brief":
        copied = str(u.plan["limit"]["words"])
        if not contains_quote(u.brief, copied):
            yield FoundProblem(WHOLE, {"why": "its words are not in the brief: copy at least 8 letters of it"})
        elif limit.seconds not in [said.seconds for said in durations_in(copied)]:
            yield FoundProblem(WHOLE, {"why": f"its words do not say {limit.text}"})


def limit_taken(u: Undertaking, _a: Arguments) -> Iterator[FoundProblem]:
    """If the brief names a limit, the plan has one."""
    if u.limit is None and (said := limits_in(u.brief)):
        yield FoundProblem(WHOLE, {"words": listing([short(one.words, 60) for one in said], 3)})


# --- the brief --------------------------------------------------------------------------------------------------------


def stands_in_brief(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """The words of each item are copied from the brief. Requirements that came with the brief need none."""
    if a["of"] == "requirements" and u.given_requirements:
        return
    # A complete sentence or item counts even when it is shorter than a quote must be.
    wholes = {folded(sentence) for sentence, _ in _parts(u.brief)}
    for item in _items(u, a["of"]):
        text = _text(item, a["field"])
        if not (contains_quote(u.brief, text) or (text and folded(text) in wholes)):
            yield FoundProblem(item["id"], {"field": a["field"]})


def brief_covered(u: Undertaking, a: Arguments) -> Iterator[FoundProblem]:
    """Each statement of the brief that asks for something is in a requirement, or left out with a reason.

    Items of lists ask for something, and so do sentences with one of `words`. The words of a requirement cover the one statement
    that contains them, or that they contain; words found in several statements cover none. Requirements that came
    with the brief are complete.
    """
    if u.given_requirements:
        return
    taken = [_text(item, "words") for item in (*u.requirements, *u.left_out)]
    taken += [str(u.plan["limit"]["words"])] if isinstance(u.plan.get("limit"), Mapping) else []
    # `stands_in_brief` checks whether they are in the brief word for word.
    parts = {f" {folded(one)} " for one in taken if one}
    asking = [(statement, f" {folded(statement)} ") for statement in statements(u.brief, a["words"])]
    wholes = dict.fromkeys(whole for _, whole in asking)
    touched = [part for part in parts if part in wholes]
    # A short quote found in several statements would cover all of them at once, so it covers none.
    touching = ([whole for whole in wholes if part in whole or whole in part] for part in parts if part not in wholes)
    taken_up = {*touched, *(found[0] for found in touching if len(found) == 1)}
    for number, (statement, whole) in enumerate(asking, 1):
        if whole not in taken_up:
            yield FoundProblem(f"{WHOLE}.{number}", {"words": short(statement, 100)})


def statements(brief: str, asking: Sequence[str]) -> Iterator[str]:
    """Yield the requirements in a brief: list items, and sentences with one of these words."""
    for sentence, is_item in _parts(brief):
        if is_item or any(_says(sentence, word) for word in asking):
            yield sentence


def _parts(brief: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentences of a brief and the items of its lists, each with whether it is an item."""
    prose = list[str]()
    # The empty last line closes the last paragraph.
    for line in [*brief.splitlines(), ""]:
        item = _ITEM.fullmatch(line)
        if line.strip() and not item:
            prose.append(line.strip())
            continue
        yield from ((one, False) for one in _SENTENCE_END.split(" ".join(prose)) if one)
        prose.clear()
        if item:
            yield item["text"].strip(), True


_OF = Argument("word", needed=True, among=(*LISTS, WHOLE))
_LIST = Argument("word", needed=True, among=LISTS)
_FIELD = Argument("word", needed=True)
_WORDS = Argument("words", needed=True)
_NUMBER, _DURATION = Argument("number"), Argument("duration")

KINDS: Mapping[str, Kind] = {
    "required": Kind(required, {"of": _OF, "fields": _WORDS}, ("field",)),
    "count": Kind(count, {"of": _LIST, "least": _NUMBER, "most": _NUMBER}, ("count", "wanted")),
    "length": Kind(
        length, {"of": _OF, "field": _FIELD, "least": _NUMBER, "most": _NUMBER}, ("field", "count", "wanted")
    ),
    "words": Kind(
        words,
        {"of": _OF, "field": _FIELD, "any_of": Argument("words"), "none_of": Argument("words")},
        ("field", "word"),
    ),
    "distinct": Kind(
        distinct, {"of": Argument("words", needed=True, among=LISTS), "field": Argument("word")}, ("other", "what")
    ),
    "known": Kind(
        known,
        {
            "of": Argument("word", needed=True, among=("steps",)),
            "field": Argument("word", needed=True, among=("depends_on", "covers")),
            "in": _LIST,
        },
        ("field", "lost", "in"),
    ),
    "covered": Kind(covered, {"least": _NUMBER}, ("text", "by")),
    "reused": Kind(reused),
    "no_circle": Kind(no_circle, {}, ("circle",)),
    "can_begin": Kind(can_begin, {}, ("waits_for",)),
    "useful": Kind(useful, {}, ("text",)),
    "before": Kind(before, {"first": _WORDS, "then": _WORDS}, ("word", "first")),
    "together": Kind(together, {"where": _WORDS, "also": _WORDS}, ("also",)),
    "durations": Kind(durations, {"least": _DURATION, "most": _DURATION}, ("duration", "why")),
    "total": Kind(
        total,
        {"most": _DURATION, "along": Argument("word", among=("all", "longest_chain"))},
        ("what", "total", "limit", "of", "longest"),
    ),
    "limit_holds": Kind(limit_holds, {}, ("why",)),
    "limit_taken": Kind(limit_taken, {}, ("words",)),
    "stands_in_brief": Kind(stands_in_brief, {"of": _LIST, "field": _FIELD}, ("field",)),
    "brief_covered": Kind(brief_covered, {"words": _WORDS}, ("words",)),
}
"""Every kind of rule, by its name in rule files."""
