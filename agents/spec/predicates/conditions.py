"""From what stands in a file to a condition: predicates, `all`, `any` and `not`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, cast

from agents.engine.events import Json
from agents.engine.graph import FeedbackKind
from agents.engine.progress.feedback import KINDS
from agents.spec.grounds import GROUNDS, WordSource
from agents.spec.predicates.combinators import All, AnyOf, Each, InOtherWords, Not, TeamCondition
from agents.spec.predicates.leaves import LEAVES, Leaf
from agents.spec.predicates.recorded_work import Predicate, Signal
from agents.spec.problems import Problems, meant, short
from agents.spec.yaml.block import MappingReader
from agents.spec.yaml.field_path import FieldPath, field_path, narrowing
from agents.spec.yaml.values import Marked

BY_NAME: Mapping[str, type[Leaf]] = {leaf.NAME: leaf for leaf in LEAVES}
COMBINING = ("all", "any", "not", "each")
SAY, DETAIL, FEEDBACK = "say", "detail", "feedback"
MOST_SAY_CHARS = 300
LARGEST_COUNT = 1_000
STATUSES = ("done", "partial", "unchanged", "conflict", "analysis", "proposed")


@dataclass(frozen=True, slots=True)
class FieldLook:
    """A field that a condition looks at, where that stands, and whether this submit must have brought it."""

    path: FieldPath
    line: int
    own: bool = False
    inside: tuple[str, ...] = ()
    """Fields that each of its items is asked for."""


@dataclass(frozen=True, slots=True)
class ReadCondition:
    """A condition that could be read, and the fields that it looks at."""

    condition: TeamCondition
    looked: tuple[FieldLook, ...]


@dataclass(frozen=True, slots=True)
class _Context:
    problems: Problems
    phases: Sequence[str]
    tools: Collection[str]
    looked: list[FieldLook]
    inside: FieldPath | None = None
    """The list of whose items the fields are, in a predicate about each of them."""


def read_condition(
    name: str, marked: Marked, phases: Sequence[str], tools: Collection[str], problems: Problems
) -> ReadCondition | None:
    """Return the condition that is written there; None if it cannot be used, with the reasons noted."""
    context = _Context(problems, phases, tools, [])
    detail = marked.entries.get(DETAIL)
    path = None
    if detail is not None:
        path = _path(detail, "'detail'", context)
    feedback, kind = _feedback(marked, context)
    predicate = _predicate(marked, f"condition {short(name)}", context, also=(DETAIL, FEEDBACK))
    if predicate is None:
        return None
    if not _grounded(predicate):
        text = f"condition {short(name)} can be met by a signal alone; a hint needs a predicate beside it that looks"
        problems.add(marked.line, text)
        return None
    return ReadCondition(TeamCondition(predicate, path, feedback, kind), tuple(context.looked))


def _feedback(marked: Marked, context: _Context) -> tuple[FieldPath | None, FeedbackKind]:
    """Return the field whose texts are feedback, and of which kind that is."""
    found = marked.entries.get(FEEDBACK)
    if found is None:
        return None, "validation"
    block = MappingReader(found, "'feedback'", context.problems)
    field, kind = block.take("field", needed=True), block.text("kind", most=40) or "validation"
    block.done()
    if kind not in KINDS:
        context.problems.add(block.line("kind"), f"'feedback' has the unknown kind {short(kind)}{meant(kind, KINDS)}")
    path = _path(field, "'field' of 'feedback'", context) if field else None
    if path:
        context.looked.append(FieldLook(path, block.line("field")))
    return path, cast("FeedbackKind", kind)


def _predicate(marked: Marked, what: str, context: _Context, *, also: Sequence[str] = ()) -> Predicate | None:
    if not isinstance(marked.value, dict):
        context.problems.add(marked.line, f"{what} must be a predicate such as `filled: FIELD`, not {marked.kind}")
        return None
    names = [key for key in marked.entries if key not in (SAY, *also)]
    if len(names) != 1:
        told = f"has {', '.join(short(name) for name in names)}" if names else "has no predicate"
        hint = "; put them in a list under `all`" if names else ""
        context.problems.add(marked.line, f"{what} {told}, and takes exactly one{hint}")
        return None
    name = names[0]
    inner = marked.entries[name]
    read = _combined(name, inner, what, context) if name in COMBINING else _leaf(name, marked, what, context)
    return _worded(read, marked, context)


def _worded(read: Predicate | None, marked: Marked, context: _Context) -> Predicate | None:
    say = marked.entries.get(SAY)
    if read is None or say is None:
        return read
    if not isinstance(say.value, str) or not 0 < len(say.value.strip()) <= MOST_SAY_CHARS:
        context.problems.add(say.line, f"'say' must be a sentence of at most {MOST_SAY_CHARS} characters")
        return None
    return InOtherWords(read, " ".join(say.value.split()))


def _combined(name: str, inner: Marked, what: str, context: _Context) -> Predicate | None:
    if name == "not":
        part = _predicate(inner, what, context)
        return Not(part) if part else None
    if name == "each":
        return _each(inner, what, context)
    if not inner.items:
        found = "an empty one" if isinstance(inner.value, list) else inner.kind
        context.problems.add(inner.line, f"{name!r} in {what} takes a list of predicates, not {found}")
        return None
    parts = [_predicate(item, what, context) for item in inner.items]
    read = tuple(part for part in parts if part is not None)
    if len(read) < len(parts):
        return None
    return All(read) if name == "all" else AnyOf(read)


def _each(inner: Marked, what: str, context: _Context) -> Predicate | None:
    block = MappingReader(inner, f"'each' in {what}", context.problems)
    among, holds = block.take("in", needed=True), block.take("holds", needed=True)
    block.done()
    path = _path(among, f"'in' of 'each' in {what}", context) if among else None
    if path is None or holds is None:
        return None
    context.looked.append(FieldLook(_within(path, context), block.line("in")))
    part = _predicate(holds, f"'each' in {what}", replace(context, inside=_within(path, context)))
    return Each(path, part) if part else None


def _within(path: FieldPath, context: _Context) -> FieldPath:
    """Return the path from the work on: one without a phase begins, in a predicate about each item, at the item."""
    around = context.inside
    return path if path.phase or around is None else FieldPath(around.phase, (*around.parts, *path.parts))


def _leaf(name: str, marked: Marked, what: str, context: _Context) -> Predicate | None:
    line, inner = marked.key_lines[name], marked.entries[name]
    if name == "given" and context.inside is not None:
        context.problems.add(line, f"{what} uses 'given', which is about a whole submit and not about one item of it")
        return None
    kind = BY_NAME.get(name)
    if kind is None:
        context.problems.add(
            line, f"{what} uses the unknown predicate {short(name)}{meant(name, [*BY_NAME, *COMBINING])}"
        )
        return None
    if not isinstance(inner.value, dict):
        if not kind.BARE:
            takes = ", ".join(f.name for f in fields(kind))
            context.problems.add(line, f"{name!r} in {what} takes a mapping with {takes}, not {inner.kind}")
            return None
        inner = Marked({kind.BARE: inner}, line, line, {kind.BARE: line})
    arguments = _arguments(kind, inner, f"{name!r} in {what}", context)
    return None if arguments is None else kind(**arguments)


def _arguments(kind: type[Leaf], marked: Marked, what: str, context: _Context) -> dict[str, Any] | None:
    """Return the arguments of a predicate, each read as the type of its field says; None if one cannot be used."""
    block = MappingReader(marked, what, context.problems)
    found: dict[str, Any] = {}
    whole = True
    for argument in fields(kind):
        needed = argument.default is MISSING
        given = block.take(argument.name, needed=needed)
        if given is None:
            whole = whole and not needed
            continue
        read = _READ[str(argument.type)](given, f"{argument.name!r} of {what}", context)
        whole = whole and read is not None
        found[argument.name] = read
    block.done()
    whole = whole and not set(marked.entries) - {argument.name for argument in fields(kind)}
    if not whole:
        return None
    _remember(kind, found, marked, context)
    return found


def _remember(kind: type[Leaf], found: Mapping[str, Any], marked: Marked, context: _Context) -> None:
    """Note which fields of works the predicate looks at."""
    own = kind.NAME == "given"
    inside = found.get("fields", ()) if kind.NAME == "each_has" else _named_inside(kind, found)
    for name, value in found.items():
        line = marked.key_lines.get(name, marked.line)
        paths = value if isinstance(value, tuple) else (value,)
        for path in paths:
            if isinstance(path, FieldPath):
                context.looked.append(FieldLook(_within(path, context), line, own, inside if name == "field" else ()))
            elif isinstance(path, WordSource):
                context.looked.extend(FieldLook(_within(found, context), line) for found in path.fields())


def _named_inside(kind: type[Leaf], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of its items that a predicate names one by one."""
    return tuple(str(found[name]) for name in getattr(kind, "INSIDE", ()) if found.get(name))


def _path(marked: Marked, what: str, context: _Context) -> FieldPath | None:
    text = marked.value
    if not isinstance(text, str) or not all(_part(part) for part in text.split(".")):
        context.problems.add(
            marked.line, f"{what} must name a field such as `events`, `events.what` or `events.kind=alarm.what`"
        )
        return None
    path = field_path(text, context.phases)
    if what == "'detail'":
        context.looked.append(FieldLook(path, marked.line))
    return path


def _part(text: str) -> bool:
    return bool(text.strip()) if not set(text) & {"=", "!"} else narrowing(text) is not None


def _paths(marked: Marked, what: str, context: _Context) -> tuple[FieldPath, ...] | None:
    items = marked.items if isinstance(marked.value, list) else [marked]
    if not items:
        context.problems.add(marked.line, f"{what} names nothing: an empty list")
    paths = [_path(item, what, context) for item in items]
    found = tuple(path for path in paths if path is not None)
    return found if found and len(found) == len(paths) else None


def _grounds(marked: Marked, what: str, context: _Context) -> tuple[WordSource, ...] | None:
    items = marked.items if isinstance(marked.value, list) else [marked]
    if not items:
        context.problems.add(marked.line, f"{what} names nothing: an empty list")
    grounds = [_ground(item, what, context) for item in items]
    found = tuple(ground for ground in grounds if ground is not None)
    return found if found and len(found) == len(grounds) else None


def _ground(marked: Marked, what: str, context: _Context) -> WordSource | None:
    first, _, rest = str(marked.value).partition(".")
    if isinstance(marked.value, str) and first in GROUNDS and all(part.strip() for part in rest.split(".") if rest):
        return WordSource(first, tuple(rest.split(".")) if rest else ())
    path = _path(marked, what, context)
    return WordSource("", path=path) if path else None


def _count(marked: Marked, what: str, context: _Context) -> int | None:
    number = marked.value
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= LARGEST_COUNT:
        return number
    context.problems.add(marked.line, f"{what} must be a whole number from 1 to {LARGEST_COUNT}")
    return None


def _number(marked: Marked, what: str, context: _Context) -> float | None:
    number = marked.value
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number
    context.problems.add(marked.line, f"{what} must be a number, not {marked.kind}")
    return None


def _flag(marked: Marked, what: str, context: _Context) -> bool | None:
    if isinstance(marked.value, bool):
        return marked.value
    context.problems.add(marked.line, f"{what} must be true or false, not {marked.kind}")
    return None


def _words(marked: Marked, what: str, context: _Context) -> tuple[str, ...] | None:
    items = marked.items if isinstance(marked.value, list) else [marked]
    words = [item.value for item in items if isinstance(item.value, str) and item.value.strip()]
    if not items or len(words) < len(items):
        context.problems.add(marked.line, f"{what} takes a word or a list of words")
        return None
    strange = [word for word in words if word not in STATUSES] if what.startswith("'status'") else []
    for word in strange:
        context.problems.add(marked.line, f"{what} has the unknown status {short(word)}{meant(word, STATUSES)}")
    return None if strange else tuple(words)


def _word(marked: Marked, what: str, context: _Context) -> str | None:
    if isinstance(marked.value, str) and marked.value.strip():
        return marked.value.strip()
    context.problems.add(marked.line, f"{what} must be a name, not {marked.kind}")
    return None


def _tool(marked: Marked, what: str, context: _Context) -> str | None:
    name = _word(marked, what, context)
    if name is not None and name not in context.tools:
        context.problems.add(marked.line, f"{what} is the unknown tool {short(name)}{meant(name, context.tools)}")
        return None
    return name


def _json(marked: Marked, what: str, context: _Context) -> Json:  # noqa: ARG001 - every value will do
    return marked.plain()


_READ: Mapping[str, Any] = {
    "FieldPath": _path,
    "FieldPath | None": _path,
    "tuple[FieldPath, ...]": _paths,
    "tuple[WordSource, ...]": _grounds,
    "int": _count,
    "float | None": _number,
    "bool": _flag,
    "tuple[str, ...]": _words,
    "str": _word,
    "ToolName": _tool,
    "Json": _json,
}
"""How an argument is read, by the type of the predicate's field as it is written."""


def _grounded(predicate: Predicate, *, holds: bool = True) -> bool:
    """Return whether it cannot hold (or, turned round, fail) by signals alone.

    Of all parts one must look; of any, every one; and `not` turns the one into the other.
    """
    if isinstance(predicate, InOtherWords | Each):
        return _grounded(predicate.part, holds=holds)
    if isinstance(predicate, Not):
        return _grounded(predicate.part, holds=not holds)
    if isinstance(predicate, All | AnyOf):
        parts = [_grounded(part, holds=holds) for part in predicate.parts]
        return any(parts) if isinstance(predicate, All) is holds else all(parts)
    return not isinstance(predicate, Signal)
