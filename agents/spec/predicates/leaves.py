"""Every predicate that is not made of others, in the order in which the reference tells them. Pure.

A predicate is a frozen dataclass. Its fields are its arguments; their types say how they are
read (`agents/spec/predicates/conditions.py`). `BARE` names the argument that stands for itself where no mapping is
written: `filled: summary`.
"""

from __future__ import annotations

from agents.spec.grounds import GroundedItems, TakesUp
from agents.spec.predicates.answers import EveryQuestionAnswered
from agents.spec.predicates.knowledge_base import (
    Below,
    LearningPage,
    PagesExist,
    ProposalDone,
    ProposalRejected,
    QuotesResolve,
    SearchInsufficient,
    ToolCalled,
)
from agents.spec.predicates.recorded_work import (
    AtLeast,
    Covers,
    Distinct,
    EachHas,
    Empty,
    Equals,
    Filled,
    Given,
    KnownIn,
    NoCircle,
    NumbersWithin,
    Signal,
    UnknownIn,
)

Leaf = (
    Filled
    | Empty
    | Given
    | AtLeast
    | EachHas
    | Covers
    | KnownIn
    | UnknownIn
    | Distinct
    | NoCircle
    | Equals
    | NumbersWithin
    | EveryQuestionAnswered
    | QuotesResolve
    | GroundedItems
    | TakesUp
    | PagesExist
    | Below
    | LearningPage
    | SearchInsufficient
    | ToolCalled
    | ProposalDone
    | ProposalRejected
    | Signal
)
LEAVES: tuple[type[Leaf], ...] = (
    Filled,
    Empty,
    Given,
    AtLeast,
    EachHas,
    Covers,
    KnownIn,
    UnknownIn,
    Distinct,
    NoCircle,
    Equals,
    NumbersWithin,
    EveryQuestionAnswered,
    QuotesResolve,
    GroundedItems,
    TakesUp,
    PagesExist,
    Below,
    LearningPage,
    SearchInsufficient,
    ToolCalled,
    ProposalDone,
    ProposalRejected,
    Signal,
)
