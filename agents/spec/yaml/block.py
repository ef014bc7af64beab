"""Mappings of a YAML file as pydantic models. Problems are reported with their line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from agents.engine.events import Json
from agents.spec.problems import Problems, meant, short
from agents.spec.yaml.values import Marked
from knowledge.wire.validation_errors import misfit

T = TypeVar("T")


class FileBlock(BaseModel):
    """A mapping of a file. A key without a value counts as left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, str_strip_whitespace=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, value: Json) -> Json:
        return (
            {key: inside for key, inside in value.items() if inside is not None} if isinstance(value, dict) else value
        )


def entries(least: int, most: int, chars: int) -> AfterValidator:
    """Return a check that words have `least` to `most` different entries of at most `chars` characters each."""

    def check(words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        distinct = tuple(dict.fromkeys(" ".join(word.split()) for word in words if word))
        if not least <= len(distinct) <= most:
            text = f"has {len(distinct)} different entries in {info.field_name!r}, from {least} to {most} are needed"
            raise ValueError(text)
        if (longest := max(map(len, distinct), default=0)) > chars:
            raise ValueError(
                f"has an entry of {longest} characters in {info.field_name!r}, at most {chars} are allowed"
            )
        return distinct

    return AfterValidator(check)


B = TypeVar("B", bound=FileBlock)


def _as_words(value: Json) -> Json:
    return tuple(value) if isinstance(value, list) else (value,)


Words = Annotated[tuple[T, ...], BeforeValidator(_as_words)]
"""One word, or a list of words."""
Some = Annotated[tuple[T, ...], BeforeValidator(_as_words), Field(min_length=1)]
"""One word, or a list of words that is not empty."""


def known(names: Collection[str] | Callable[[Any], Collection[str]], says: str) -> BeforeValidator:
    """Return a check that a text is one of the names, which may be looked up in the context of the validation.

    `says` completes a sentence about the block, with {} for the text: "uses the unknown tool {}".
    """

    def check(value: Json, info: ValidationInfo) -> Json:
        there = names(info.context) if callable(names) else names
        if isinstance(value, str) and value not in there:
            raise ValueError(says.format(short(value)) + meant(value, there))
        return value

    return BeforeValidator(check)


def read_block(kind: type[B], marked: Marked, what: str, problems: Problems, context: object = None) -> B | None:
    """Return the block; None if it is invalid, with all problems reported. `what` is its name in messages."""
    if not isinstance(marked.value, dict):
        problems.add(marked.line, f"{what} must be a mapping, not {marked.kind}")
        return None
    try:
        return kind.model_validate(marked.plain(), context=context)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            problems.add(marked.line_at(one["loc"]), _sentence(one, kind, what))
    return None


def _sentence(problem: Mapping[str, Any], kind: type[FileBlock], what: str) -> str:
    """Return one of pydantic's errors as a message about the file."""
    type_ = problem["type"]
    if type_ == "value_error":
        return f"{what} {problem['ctx']['error']}"
    key = str(problem["loc"][0])
    if type_ == "missing":
        return f"{what} lacks {key!r}"
    if type_ == "extra_forbidden":
        keys = [field.alias or name for name, field in kind.model_fields.items()]
        return f"{what} has the unknown key {short(key)}{meant(key, keys)}"
    if type_ == "too_short":
        return f"{key!r} of {what} is an empty list"
    hint = "; put it in quotes" if type_ == "string_type" and isinstance(problem["input"], bool | int | float) else ""
    return misfit(problem, {}, key) + hint
