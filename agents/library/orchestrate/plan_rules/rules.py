"""Rules for plans: this program's, a team's and those of one journey. Unreadable parts are reported with their place. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, create_model

from agents.engine.events import Json
from agents.library.orchestrate.plan_rules.checks import KINDS, Argument
from agents.library.orchestrate.plan_rules.durations import UNITS, seconds_of
from agents.library.orchestrate.record import Undertaking
from agents.prompts.prompt import placeholders, render
from agents.spec.files import FOLDER
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.yaml.block import FileBlock, Words, known, read_block
from agents.spec.yaml.values import Marked, UnreadableFile, marked, read_marked

TEAM_FILE = f"{FOLDER}/rules/orchestrate.yaml"
MOST_RULES, MOST_MESSAGE, MOST_WORDS = 100, 400, 60
SEVERITIES = ("error", "warning", "off")
Severity = Literal["error", "warning", "off"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `message` reports a violation; an error has to be fixed before the work continues, a warning may stay."""

    id: str
    kind: str
    severity: Severity
    message: str
    arguments: Mapping[str, Json]
    origin: str


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A place where a plan breaks a rule."""

    rule: str
    severity: Severity
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a journey, and the mistakes in rules that could not be read."""

    rules: tuple[Rule, ...]
    mistakes: tuple[str, ...] = ()


def failures(rules: Sequence[Rule], undertaking: Undertaking) -> Iterator[RuleFailure]:
    """Yield the places where a plan breaks the rules, in the rules' order."""
    for rule in rules:
        if rule.severity == "off":
            continue
        for found in KINDS[rule.kind].check(undertaking, rule.arguments):
            text = render(rule.message, {**found.told, "about": found.about})
            yield RuleFailure(rule.id, rule.severity, found.about, " ".join(text.split()))


def rule_set(own: Sequence[Rule], team: str | None, of_journey: Json) -> RuleSet:
    """Return the built-in rules with those of a team's file and of a journey's inputs.

    A team's rule replaces ours with the same id. A journey's own rules are only added to the team's, so they cannot weaken
    what the team demands.
    """
    rules = {rule.id: rule for rule in own}
    mistakes: list[str] = []
    if team is not None:
        # A lone half of a surrogate pair is then reported as a problem of the file instead of raising here.
        found, problems = rules_in(team.encode("utf-8", "surrogatepass"), TEAM_FILE)
        mistakes += map(str, problems)
        rules |= {rule.id: rule for rule in found}
    added, wrong = journey_rules(of_journey, rules)
    return RuleSet((*rules.values(), *added), (*mistakes, *(f"inputs.{text}" for text in wrong)))


def journey_rules(items: Json, taken: Collection[str] = ()) -> tuple[Sequence[Rule], Sequence[str]]:
    """Return the usable rules in a journey's inputs, and a sentence for each mistake in the others.

    The rules may not use the ids `taken`.
    """
    rules: dict[str, Rule] = {}
    mistakes: list[str] = []
    for number, item in enumerate(items if isinstance(items, list) else ()):
        # One by one, so that a mistake in one rule disables that rule alone.
        reading = partial(marked, {"rules": [item]})
        found, problems = _read(reading, f"inputs.rules[{number}]", {*taken, *rules})
        mistakes += [f"rules[{number}]: {problem.text}" for problem in problems]
        rules |= {rule.id: rule for rule in found}
    return list(rules.values()), mistakes


def rules_in(raw: bytes, file: str) -> tuple[tuple[Rule, ...], Sequence[SpecProblem]]:
    """Return the usable rules of a file, and the problems of the others, by line."""
    return _read(partial(read_marked, raw), file, ())


def _read(
    reading: Callable[[], Marked], file: str, taken: Collection[str]
) -> tuple[tuple[Rule, ...], Sequence[SpecProblem]]:
    problems = Problems(file)
    try:
        top = reading()
    except UnreadableFile as error:
        problems.add(error.line, error.reason)
        return (), problems.in_order()
    read_block(RulesBlock, top, "the file", problems)
    found = top.take("rules") or Marked([], top.line)
    if not isinstance(found.value, list):
        problems.add(top.line_at(["rules"]), f"'rules' must be a list, not {found.kind}")
    if len(found.items) > MOST_RULES:
        text = f"there are {len(found.items)} rules, at most {MOST_RULES} are allowed"
        problems.add(found.items[MOST_RULES].line, text)
    rules: dict[str, Rule] = {}
    for item in found.items[:MOST_RULES]:
        rule = _rule(item, file, problems)
        if rule is not None and rule.id in (*rules, *taken):
            problems.add(item.line, f"there is already a rule {short(rule.id)}: give this one another id")
        elif rule is not None:
            rules[rule.id] = rule
    return tuple(rules.values()), problems.in_order()


def _rule(item: Marked, file: str, problems: Problems) -> Rule | None:
    named = item.take("kind")
    name = named.value if named else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if isinstance(name, str) and kind is None:
        problems.add(item.line_at(["kind"]), f"there is no kind of rule {short(name)}{meant(name, KINDS)}")
        return None
    block = read_block(_block(name) if isinstance(name, str) else RuleBlock, item, "the rule", problems)
    if block is None or kind is None:
        return None
    line, known = item.line_at(["message"]), ("about", *kind.tells)
    if block.severity != "off" and not block.message:
        problems.add(line, "the rule lacks 'message'")
        return None
    if unknown := sorted(placeholders(block.message) - set(known)):
        hint = meant(unknown[0], known)
        problems.add(line, f"a rule of kind {block.kind} has no placeholder {short(unknown[0])}{hint}")
        return None
    given = {argument: getattr(block, argument) for argument in kind.arguments}
    arguments = {argument: value for argument, value in given.items() if value not in (None, "", ())}
    return Rule(block.id, block.kind, block.severity, block.message, arguments, file)


class RulesBlock(FileBlock):
    """A file of rules."""

    rules: Json = Field()


class RuleBlock(FileBlock):
    """A rule as its file writes it; the arguments of its kind are in a class of their own."""

    id: str = Field(min_length=1, max_length=60)
    kind: str = Field(min_length=1)
    severity: Annotated[Severity, known(SEVERITIES, "has the unknown severity {}")] = "error"
    message: str = Field(default="", max_length=MOST_MESSAGE)


@cache
def _block(name: str) -> type[RuleBlock]:
    """Return the block of a kind of rule, with its arguments."""
    made: dict[str, Any] = {key: _field(key, argument) for key, argument in KINDS[name].arguments.items()}
    return create_model(f"{name.title()}FileBlock", __base__=RuleBlock, **made)


def _field(name: str, argument: Argument) -> tuple[Any, Any]:
    """Return the type and the default of an argument."""
    usual: Any = ... if argument.needed else None
    match argument.form:
        case "number":
            return Annotated[int, Field(ge=0, le=1_000_000)], usual
        case "duration":
            return Annotated[str, AfterValidator(_seconds)], usual
        case "word":
            word: Any = Annotated[str, Field(min_length=1, max_length=100)]
            return (
                Annotated[word, known(argument.among, f"cannot have {{}} in {name!r}")] if argument.among else word
            ), usual
        case _:
            one: Any = Annotated[str, AfterValidator(_says_something)]
            if argument.among:
                one = Annotated[one, known(argument.among, f"cannot have {{}} in {name!r}")]
            return Annotated[Words[one], AfterValidator(_few)], usual


def _seconds(text: str, info: ValidationInfo) -> float:
    took = seconds_of(text)
    if not took:
        raise ValueError(f"has no duration in {info.field_name!r}: write a number with {UNITS}")
    return took


def _says_something(word: str, info: ValidationInfo) -> str:
    if not word:
        raise ValueError(f"has an empty word in {info.field_name!r}")
    return word


def _few(words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if len(words) > MOST_WORDS:
        raise ValueError(f"has {len(words)} words in {info.field_name!r}, at most {MOST_WORDS} are allowed")
    return words
