"""Rules over a plan, as data: this program's, a team's and those of one journey. What cannot be read is named with its place. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

from agents.engine.events import Json
from agents.library.orchestrate.plan_rules.checks import KINDS, Argument, Kind
from agents.library.orchestrate.plan_rules.durations import UNITS, seconds_of
from agents.library.orchestrate.record import Undertaking
from agents.prompts.prompt import placeholders, render
from agents.spec.files import FOLDER
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.yaml.block import MappingReader
from agents.spec.yaml.values import Marked, UnreadableFile, marked, read_marked

TEAM_FILE = f"{FOLDER}/rules/orchestrate.yaml"
MOST_RULES, MOST_MESSAGE, MOST_WORDS = 100, 400, 60
SEVERITIES = ("error", "warning", "off")
Severity = Literal["error", "warning", "off"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. What it finds is told by `message`; an error has to be mended before the work goes on, a warning may stay."""

    id: str
    kind: str
    severity: Severity
    message: str
    arguments: Mapping[str, Json]
    origin: str


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A place of a plan where a rule does not hold."""

    rule: str
    severity: Severity
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules that hold for a journey, and what could not be read of those that were meant to."""

    rules: tuple[Rule, ...]
    mistakes: tuple[str, ...] = ()


def failures(rules: Sequence[Rule], undertaking: Undertaking) -> Iterator[RuleFailure]:
    """Yield where a plan breaks the rules, in their order."""
    for rule in rules:
        if rule.severity == "off":
            continue
        for found in KINDS[rule.kind].check(undertaking, rule.arguments):
            text = render(rule.message, {**found.told, "about": found.about})
            yield RuleFailure(rule.id, rule.severity, found.about, " ".join(text.split()))


def rule_set(own: Sequence[Rule], team: str | None, of_journey: Json) -> RuleSet:
    """Return this program's rules with those of a team's file and of a journey's inputs.

    A team's rule replaces ours with the same id. Rules of a journey are only added: whoever starts one cannot weaken what the
    team demands.
    """
    rules = {rule.id: rule for rule in own}
    mistakes: list[str] = []
    if team is not None:
        found, problems = rules_in(team.encode("utf-8", "surrogatepass"), TEAM_FILE)
        mistakes += map(str, problems)
        rules |= {rule.id: rule for rule in found}
    added, wrong = journey_rules(of_journey, rules)
    return RuleSet((*rules.values(), *added), (*mistakes, *(f"inputs.{text}" for text in wrong)))


def journey_rules(items: Json, taken: Collection[str] = ()) -> tuple[Sequence[Rule], Sequence[str]]:
    """Return the rules in a journey's inputs that can be used, and a sentence for each mistake in the others.

    `taken` are ids that they may not have.
    """
    rules: dict[str, Rule] = {}
    mistakes: list[str] = []
    for number, item in enumerate(items if isinstance(items, list) else ()):
        reading = partial(marked, {"rules": [item]})
        found, problems = _read(reading, f"inputs.rules[{number}]", {*taken, *rules})
        mistakes += [f"rules[{number}]: {problem.text}" for problem in problems]
        rules |= {rule.id: rule for rule in found}
    return list(rules.values()), mistakes


def rules_in(raw: bytes, file: str) -> tuple[tuple[Rule, ...], Sequence[SpecProblem]]:
    """Return the rules of a file that can be used, and what is wrong with all others, each with its line."""
    return _read(partial(read_marked, raw), file, ())


def _read(
    reading: Callable[[], Marked], file: str, taken: Collection[str]
) -> tuple[tuple[Rule, ...], Sequence[SpecProblem]]:
    problems = Problems(file)
    try:
        whole = reading()
    except UnreadableFile as error:
        problems.add(error.line, error.reason)
        return (), problems.told()
    top = MappingReader(whole, "the file", problems)
    listed = top.take("rules", needed=True)
    top.done()
    if listed is not None and not isinstance(listed.value, list):
        problems.add(top.line("rules"), f"'rules' must be a list, not {listed.kind}")
    items = listed.items if listed is not None else ()
    if len(items) > MOST_RULES:
        problems.add(items[MOST_RULES].line, f"there are {len(items)} rules, at most {MOST_RULES} are taken")
    rules: dict[str, Rule] = {}
    for item in items[:MOST_RULES]:
        own = Problems(file)
        rule = _rule(item, file, own)
        if not own and rule.id in (*rules, *taken):
            own.add(item.line, f"there is a rule {short(rule.id)} already: give this one another id")
        if not own:
            rules[rule.id] = rule
        for problem in own.told():
            problems.add(problem.line, problem.text)
    return tuple(rules.values()), problems.told()


def _rule(item: Marked, file: str, problems: Problems) -> Rule:
    block = MappingReader(item, "the rule", problems)
    id_ = block.text("id", most=60, needed=True)
    name = block.text("kind", most=60, needed=True)
    kind = KINDS.get(name)
    severity = block.text("severity", most=20) or "error"
    if severity not in SEVERITIES:
        problems.add(block.line("severity"), f"the severity {short(severity)} is none{meant(severity, SEVERITIES)}")
    message = block.text("message", most=MOST_MESSAGE, needed=severity != "off")
    arguments: dict[str, Json] = {}
    if kind is None:
        if name:
            problems.add(block.line("kind"), f"there is no kind of rule {short(name)}{meant(name, KINDS)}")
        return Rule(id_, name, "off", message, arguments, file)
    arguments = _arguments(block, kind)
    unknown = sorted(placeholders(message) - {"about", *kind.tells})
    for one in unknown:
        known = ("about", *kind.tells)
        problems.add(block.line("message"), f"a rule of kind {name} cannot tell {short(one)}{meant(one, known)}")
    block.done()
    return Rule(id_, name, cast("Severity", severity), message, arguments, file)


def _arguments(block: MappingReader, kind: Kind) -> dict[str, Json]:
    found = {name: _argument(block, name, argument) for name, argument in kind.arguments.items()}
    return {name: value for name, value in found.items() if value not in (None, "", ())}


def _argument(block: MappingReader, name: str, argument: Argument) -> Json:
    """Return an argument as its kind of rule takes it; None if it is not there, or not as it must be."""
    match argument.form:
        case "number":
            usual = -1
            number = block.number(name, least=0, most=1_000_000, usual=usual)
            return None if number == usual else number
        case "duration":
            return _duration(block, name)
        case "word":
            word = block.text(name, most=100, needed=argument.needed)
            _among(block, name, [(word, block.line(name))] if word else [], argument)
            return word
        case _:
            words = block.words(name, needed=argument.needed)
            if len(words) > MOST_WORDS:
                block.problems.add(block.line(name), f"{name!r} has {len(words)} words, at most {MOST_WORDS} are taken")
            if blank := [line for word, line in words if not word.strip()]:
                block.problems.add(blank[0], f"a word of {name!r} says nothing")
            _among(block, name, words, argument)
            return tuple(word for word, _ in words)


def _duration(block: MappingReader, name: str) -> float | None:
    text = block.text(name, most=60)
    if not text:
        return None
    took = seconds_of(text)
    if not took:
        block.problems.add(block.line(name), f"{name!r} is no duration: write a number with {UNITS}")
    return took


def _among(block: MappingReader, name: str, words: Sequence[tuple[str, int]], argument: Argument) -> None:
    for word, line in words:
        if argument.among and word not in argument.among:
            block.problems.add(line, f"{name!r} cannot be {short(word)}{meant(word, argument.among)}")
