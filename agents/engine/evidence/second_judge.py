"""A language model as a second judge: it may doubt that a text follows from its quotes, after all conditions are met.

It sends a text back once. If the next submission has the same text, the text passes and the disagreement is recorded. The record
alone says which texts were sent back, so another process continues where one was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from agents.engine.agent import QuotedStatement
from agents.engine.evaluation import Judged
from agents.engine.events import CheckpointReached, FeedbackAdded, Json, Logged, PhaseChanged, canonical
from agents.engine.progress.position import JourneyPosition
from agents.engine.work.gaps import listing
from agents.store.ports import JourneyStore

Fault = Literal["not_in_quotes", "other_subject", "contradicts", "no_answer"]
FAULTS: Mapping[Fault, str] = {
    "not_in_quotes": "the text says more than its quotes",
    "other_subject": "the text is about something else than its quotes",
    "contradicts": "the text contradicts its quotes",
    "no_answer": "the text does not answer its question",
}
"""The faults that a model can name: it picks the word, and people read these words for it."""
ADVICE: Mapping[Fault, str] = {
    "not_in_quotes": "quote the sentence that says it, or change the text",
    "other_subject": "quote a sentence about the same thing, or change the text",
    "contradicts": "change the text, or quote the sentence that it rests on",
    "no_answer": "answer what is asked, or quote the sentence that answers it",
}
KEEP = "Submit it again unchanged to keep it: the disagreement is then noted."
KEPT = "kept against the configured model, which finds that {}; compare it with its quotes"
MOST_PLACES = 20


@dataclass(frozen=True, slots=True)
class SubstanceOpinion:
    """The faults that a model finds, by statement. `note` says why it was not asked about some statements, or ""."""

    faults: Mapping[QuotedStatement, Fault] = field(default_factory=dict)
    note: str = ""


class SubstanceJudge(Protocol):
    """A model that says whether statements follow from their quotes. It never fails: without an answer it finds no faults."""

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    async def opinion(self, statements: Sequence[QuotedStatement]) -> SubstanceOpinion:
        """Return the faults that the model finds in these statements."""
        ...


class SecondJudge:
    """Asks a model about the statements that are new since it was last asked in a phase."""

    def __init__(self, model: SubstanceJudge, store: JourneyStore) -> None:
        self._model, self._store = model, store

    async def reviewed(self, here: JourneyPosition, judged: Judged) -> Judged:
        """Return the judgement, or one that is not met if the model objects to a statement for the first time."""
        if not judged.met or not judged.statements:
            return judged
        phase, log = here.state.phase, await self._store.events(here.journey)
        sent_back, noted = _objections(log, phase, "validation"), _objections(log, phase, "soft_failure")
        settled = _settled_lines(here, log)
        statements = {statement_key(one): one for one in judged.statements}
        new = [one for key, one in statements.items() if key not in sent_back and not _lines(one) <= settled]
        opinion = await self._model.opinion(new) if new else SubstanceOpinion()
        if opinion.faults:
            objections = tuple(self._objections_to(phase, opinion.faults))
            return Judged(feedback=objections, note=opinion.note)
        kept = {one: sent_back[key] for key, one in statements.items() if key in sent_back and key not in noted}
        notes = (_feedback("soft_failure", phase, fault, of, KEPT) for fault, of in _by_fault(kept))
        return replace(judged, feedback=(*judged.feedback, *notes), note=opinion.note)

    def _objections_to(self, phase: str, faults: Mapping[QuotedStatement, Fault]) -> Iterator[FeedbackAdded]:
        for fault, statements in _by_fault(faults):
            form = f"the configured model ({self._model.name}) finds that {{}}; {ADVICE[fault]}. {KEEP}"
            yield _feedback("validation", phase, fault, statements, form)


def statement_key(statement: QuotedStatement) -> str:
    """Return a short hash of the text, its quotes and its question."""
    content = canonical([statement.text, statement.quotes, statement.question])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _feedback(
    kind: Literal["validation", "soft_failure"],
    phase: str,
    fault: Fault,
    statements: Sequence[QuotedStatement],
    form: str,
) -> FeedbackAdded:
    places = listing([one.place for one in statements], MOST_PLACES)
    about = tuple(f"{fault} {statement_key(one)}" for one in statements)
    return FeedbackAdded(kind, phase, f"{places}: {form.replace('{}', FAULTS[fault])}", about)


def _by_fault(faults: Mapping[QuotedStatement, Fault]) -> Iterator[tuple[Fault, Sequence[QuotedStatement]]]:
    """Yield each fault with its statements, so that many objections are few sentences."""
    for fault in FAULTS:
        if found := [one for one, its in faults.items() if its == fault]:
            yield fault, found


def _objections(log: Sequence[Logged], phase: str, kind: str) -> dict[str, Fault]:
    """Return the faults that feedback of this kind records, by the key of the statement."""
    recorded = dict[str, Fault]()
    for logged in log:
        event = logged.event
        if isinstance(event, FeedbackAdded) and (event.kind, event.phase) == (kind, phase):
            for about in event.about:
                word, _, key = about.partition(" ")
                recorded[key] = next((fault for fault in FAULTS if fault == word), "not_in_quotes")
    return recorded


def _settled_lines(here: JourneyPosition, log: Sequence[Logged]) -> frozenset[str]:
    """Return the lines of the phase's recorded work if the model has seen that work; else none.

    The model has seen it if the work moved on, or if the model sent it back.
    """
    phase = here.state.phase
    kept = here.state.work.get(phase)
    if kept is None:
        return frozenset()
    for logged in log:
        if logged.version == kept.version:
            match logged.event:
                case PhaseChanged(source, is_backward=False) if source == phase:
                    return frozenset(_lines_in(kept.content))
                case CheckpointReached(asked) if asked == phase:
                    return frozenset(_lines_in(kept.content))
                case FeedbackAdded(phase=of, about=about) if of == phase and about:
                    return frozenset(_lines_in(kept.content))
    return frozenset()


def _lines(statement: QuotedStatement) -> frozenset[str]:
    return frozenset(_lines_in([statement.text, *statement.quotes]))


def _lines_in(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    elif isinstance(value, Mapping):
        for inside in value.values():
            yield from _lines_in(inside)
    elif isinstance(value, list | tuple):
        for inside in value:
            yield from _lines_in(inside)
