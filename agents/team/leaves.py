"""Every predicate that is not made of others, in the order in which the reference tells them. Pure.

A predicate is a frozen dataclass. Its fields are its arguments; their types say how they are read (`agents/team/conditions.py`).
`BARE` names the argument that stands for itself where no mapping is written: `filled: summary`.
"""

from __future__ import annotations

from agents.team.grounding import Grounded, TakesUp
from agents.team.predicates import (
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
    Signal,
    UnknownIn,
    Within,
)
from agents.team.predicates_heard import Answered
from agents.team.predicates_looking import (
    Below,
    LearningPage,
    PagesExist,
    ProposalDone,
    ProposalRejected,
    QuotesResolve,
    SearchInsufficient,
    ToolCalled,
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
    | Within
    | Answered
    | QuotesResolve
    | Grounded
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
    Within,
    Answered,
    QuotesResolve,
    Grounded,
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
