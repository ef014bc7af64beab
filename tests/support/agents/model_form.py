"""The form of work as a pydantic model: agents of tests need no JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.engine.events import Json
from agents.engine.work.form import MOST_PROBLEMS, field_path
from knowledge.wire.lean_schema import lean_input
from knowledge.wire.validation_errors import misfit

Id = Annotated[str, Field(min_length=1, max_length=60)]


class Part(BaseModel):
    """A part of the work: unknown fields are refused, and `"5"` is not 5."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Quoted(Part):
    """A quote from the knowledge base."""

    path: Annotated[str, Field(min_length=1, max_length=1_000)]
    section: Annotated[str, Field(max_length=1_000, description="Heading, or 'A > B'; '' before the first.")]
    quote: Annotated[str, Field(min_length=1, max_length=2_000, description="Copied, not reworded.")]


class PhaseWork(Part):
    """Base of every work. `ASKS` names the fields that belong to one submit only."""

    ASKS: ClassVar[frozenset[str]] = frozenset()

    drop: Annotated[list[Id], Field(description="Ids of recorded items to remove.")] = Field(default_factory=list)


@cache
def _schema_of(model: type[PhaseWork]) -> Mapping[str, Json]:
    return lean_input(model.model_json_schema())


class ModelForm:
    """The form of a work that is a pydantic model."""

    def __init__(self, model: type[PhaseWork]) -> None:
        self.model = model

    @property
    def asks(self) -> frozenset[str]:
        """Return the fields that the next submit does not inherit."""
        return self.model.ASKS

    @property
    def schema(self) -> Mapping[str, Json]:
        """Return the JSON Schema, without what models don't need."""
        return _schema_of(self.model)

    def problems(self, work: Json) -> Sequence[str]:
        """Return a short sentence for each wrong field."""
        try:
            self.model.model_validate(work)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=True, include_context=True)
            sentences = [self._problem(cast("Mapping[str, Any]", one), work) for one in found[:MOST_PROBLEMS]]
            more = len(found) - len(sentences)
            return [*sentences, f"and {more} more"] if more else sentences
        return ()

    def _problem(self, problem: Mapping[str, Any], work: Json) -> str:
        return misfit(problem, self.schema, field_path(work, problem["loc"]), of="field")
