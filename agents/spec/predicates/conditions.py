"""Read conditions from a file: predicates, `all`, `any`, `not` and `each`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from agents.engine.events import Json
from agents.engine.graph import FeedbackKind
from agents.engine.progress.feedback import KINDS
from agents.spec.predicates.combinators import All, AnyOf, Each, InOtherWords, Not, TeamCondition
from agents.spec.predicates.grounds import AccountsFor, GroundedItems, TakesUp, sources_in
from agents.spec.predicates.knowledge_base import (
    Below,
    LearningPage,
    PagesExist,
    ProposalDone,
    ProposalRejected,
    QuotesResolve,
    Searched,
    SearchInsufficient,
    ToolCalled,
)
from agents.spec.predicates.leaf import Leaf, Predicate
from agents.spec.predicates.recorded_work import (
    AtLeast,
    Covers,
    Distinct,
    EachHas,
    Empty,
    Equals,
    EveryQuestionAnswered,
    Filled,
    Given,
    KnownIn,
    NoCircle,
    NumbersWithin,
    Signal,
    UnknownIn,
)
from agents.spec.predicates.substance import Differ, Supported, Tells
from agents.spec.problems import Problems, meant, short
from agents.spec.yaml.block import FileBlock, known, read_block
from agents.spec.yaml.field_path import FieldPath, Path
from agents.spec.yaml.values import Marked

LEAVES: tuple[type[Leaf], ...] = (
    *(Filled, Empty, Given, AtLeast, EachHas, Covers, KnownIn, UnknownIn, Distinct, NoCircle, Equals, NumbersWithin),
    *(
        Tells,
        Differ,
        EveryQuestionAnswered,
        QuotesResolve,
        Supported,
        GroundedItems,
        TakesUp,
        AccountsFor,
        PagesExist,
        Below,
        LearningPage,
    ),
    *(SearchInsufficient, Searched, ToolCalled, ProposalDone, ProposalRejected, Signal),
)
"""Every predicate that is not made of others, in the order of the reference page."""
BY_NAME: Mapping[str, type[Leaf]] = {leaf.NAME: leaf for leaf in LEAVES}
COMBINING = ("all", "any", "not", "each")
SAY, DETAIL, FEEDBACK = "say", "detail", "feedback"
MOST_SAY_CHARS = 300


@dataclass(frozen=True, slots=True)
class FieldLook:
    """A field that a condition reads, and its line in the file. `own`: it must come with this submit."""

    path: FieldPath
    line: int
    own: bool = False
    inside: tuple[str, ...] = ()
    """Fields that each of its items must have."""

    def all_parts(self) -> list[tuple[str, ...]]:
        """Return the parts of the path, and of the paths to the fields of its items."""
        return [self.path.parts, *((*self.path.parts, *inner.split(".")) for inner in self.inside)]


@dataclass(frozen=True, slots=True)
class ReadCondition:
    """A condition, and the fields that it reads."""

    condition: TeamCondition
    looked: tuple[FieldLook, ...]


@dataclass(frozen=True, slots=True)
class _Context:
    """The context of reading a condition. In `each`, paths without a phase begin at an item of the list `inside`."""

    problems: Problems
    phases: Sequence[str]
    tools: Collection[str]
    looked: list[FieldLook]
    inside: FieldPath | None = None


class DetailBlock(FileBlock):
    """The field that explains a backward transition."""

    detail: Path


class FeedbackBlock(FileBlock):
    """The field with the feedback of a condition."""

    field: Path
    kind: Annotated[FeedbackKind, known(KINDS, "has the unknown kind {}")] = "validation"


class EachBlock(FileBlock):
    """A predicate for each item of a list."""

    among: Path = Field(alias="in")
    holds: Json = Field()


def read_condition(
    name: str, marked: Marked, phases: Sequence[str], tools: Collection[str], problems: Problems
) -> ReadCondition | None:
    """Return the condition; None if it is invalid, with all problems reported."""
    context = _Context(problems, phases, tools, [])
    detail = feedback = None
    kind: FeedbackKind = "validation"
    if (found := marked.entries.get(DETAIL)) is not None:
        only = Marked({DETAIL: found}, found.line, found.line, {DETAIL: found.line})
        if block := read_block(DetailBlock, only, f"condition {short(name)}", problems, context):
            detail = block.detail
            context.looked.append(FieldLook(detail, found.line))
    found = marked.entries.get(FEEDBACK)
    if found and (source := read_block(FeedbackBlock, found, "'feedback'", problems, context)):
        feedback, kind = source.field, source.kind
        context.looked.append(FieldLook(feedback, found.line_at(["field"])))
    predicate = _predicate(marked, f"condition {short(name)}", context, also=(DETAIL, FEEDBACK))
    if predicate is None:
        return None
    if not _grounded(predicate):
        text = f"condition {short(name)} can be met by a signal alone; combine it with a predicate about the work"
        problems.add(marked.line, text)
        return None
    return ReadCondition(TeamCondition(predicate, detail, feedback, kind), tuple(context.looked))


def _predicate(marked: Marked, what: str, context: _Context, *, also: Sequence[str] = ()) -> Predicate | None:
    if not isinstance(marked.value, dict):
        context.problems.add(marked.line, f"{what} must be a predicate such as `filled: FIELD`, not {marked.kind}")
        return None
    names = [key for key in marked.entries if key not in (SAY, *also)]
    if len(names) != 1:
        there = f"has {', '.join(short(name) for name in names)}" if names else "has no predicate"
        hint = "; put them in a list under `all`" if names else ""
        context.problems.add(marked.line, f"{what} {there}, and takes exactly one{hint}")
        return None
    name, say = names[0], marked.entries.get(SAY)
    read = (
        _combined(name, marked.entries[name], what, context)
        if name in COMBINING
        else _leaf(name, marked, what, context)
    )
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
    block = read_block(EachBlock, inner, f"'each' in {what}", context.problems, context)
    if block is None:
        return None
    around = _from_work(block.among, context)
    context.looked.append(FieldLook(around, inner.line_at(["in"])))
    part = _predicate(inner.entries["holds"], f"'each' in {what}", replace(context, inside=around))
    return Each(block.among, part) if part else None


def _from_work(path: FieldPath, context: _Context) -> FieldPath:
    """Return the path from the top of the work: in `each`, a path without a phase begins at the item."""
    around = context.inside
    return path if path.phase or around is None else FieldPath(around.phase, (*around.parts, *path.parts))


def _leaf(name: str, marked: Marked, what: str, context: _Context) -> Predicate | None:
    line, inner = marked.key_lines[name], marked.entries[name]
    if name == Given.NAME and context.inside is not None:
        context.problems.add(line, f"{what} uses 'given', which is about a submit and not about one item")
        return None
    kind = BY_NAME.get(name)
    if kind is None:
        names = [*BY_NAME, *COMBINING]
        context.problems.add(line, f"{what} uses the unknown predicate {short(name)}{meant(name, names)}")
        return None
    if not isinstance(inner.value, dict):
        if not kind.BARE:
            takes = ", ".join(kind.model_fields)
            context.problems.add(line, f"{name!r} in {what} takes a mapping with {takes}, not {inner.kind}")
            return None
        inner = Marked({kind.BARE: inner}, line, line, {kind.BARE: line})
    leaf = read_block(kind, inner, f"{name!r} in {what}", context.problems, context)
    if leaf is None:
        return None
    arguments = dict(leaf)
    named = ["fields"] if isinstance(leaf, EachHas) else kind.INSIDE
    values = [arguments[name] for name in named if arguments.get(name)]
    inside = tuple(one for value in values for one in (value if isinstance(value, tuple) else (value,)))
    for argument, value in arguments.items():
        for path in sources_in(value):
            of_items = inside if argument == "field" else ()
            look = FieldLook(_from_work(path, context), inner.line_at([argument]), isinstance(leaf, Given), of_items)
            context.looked.append(look)
    return leaf


def _grounded(predicate: Predicate, *, holds: bool = True) -> bool:
    """Return whether signals alone cannot make the predicate hold, or, if `holds` is false, cannot make it fail.

    In `all`, one part that reads the work is enough; in `any`, every part must read it; `not` swaps the two.
    """
    if isinstance(predicate, InOtherWords | Each):
        return _grounded(predicate.part, holds=holds)
    if isinstance(predicate, Not):
        return _grounded(predicate.part, holds=not holds)
    if isinstance(predicate, All | AnyOf):
        parts = [_grounded(part, holds=holds) for part in predicate.parts]
        return any(parts) if isinstance(predicate, All) is holds else all(parts)
    return not isinstance(predicate, Signal)
