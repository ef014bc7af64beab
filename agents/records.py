"""Frozen dataclasses as JSON and back, by the declared types of their fields. Pure.

Not pydantic: it refuses half a surrogate pair, and models write such halves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from knowledge.history.timestamps import aware, utc_text

T = TypeVar("T")
Convert = Callable[[Any], Any]
WRONG_TYPE = "has the wrong type"


class BadRecord(ValueError):
    """A JSON value that is not the form of a record. `what` describes the fault of the field `field`; "" is the whole record."""

    def __init__(self, what: str, field: str = "") -> None:
        self.what, self.field = what, field
        super().__init__(f"its {field} {what}" if field else f"it {what}")


@dataclass(frozen=True, slots=True)
class _FieldCodec:
    name: str
    key: str
    """The name of the field in JSON: its own, or `key` in its metadata."""
    default: Any
    write: Convert
    read: Convert


class RecordCodec(Generic[T]):
    """Converts the records of one class. Their fields are JSON, times, records, and tuples and mappings of these."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        hints = get_type_hints(kind)
        self._fields: list[_FieldCodec] = []
        for one in fields(kind):  # type: ignore[arg-type]  # every record is a dataclass
            # A factory's default is made once: it is only compared with, never handed out.
            default = one.default if one.default_factory is MISSING else one.default_factory()
            write, read = _writer(hints[one.name]), _reader(hints[one.name])
            self._fields.append(_FieldCodec(one.name, one.metadata.get("key", one.name), default, write, read))
        self._by_key = {one.key: one for one in self._fields}
        self._required = [one.key for one in self._fields if one.default is MISSING]

    def form(self, record: T) -> dict[str, Any]:
        """Return the record as a JSON object with all fields."""
        return {one.key: one.write(getattr(record, one.name)) for one in self._fields}

    def short_form(self, record: T) -> dict[str, Any]:
        """Return the record as a JSON object without the fields that have their default; records inside it are complete.

        So a field that a later version adds does not change the stored form of older records.
        """
        values = ((one, getattr(record, one.name)) for one in self._fields)
        return {one.key: one.write(value) for one, value in values if value != one.default}

    def record(self, form: Any) -> T:
        """Return the record that `form` or `short_form` turned into that value.

        Raises:
            BadRecord: there is no such record; the message names the field.
        """
        if not isinstance(form, dict):
            raise BadRecord(WRONG_TYPE)
        values = {}
        for key, value in form.items():
            one = self._by_key.get(key)
            if one is None:
                raise BadRecord(f"has an unknown field {str(key)[:60]!r}")
            try:
                values[one.name] = one.read(value)
            except BadRecord as error:
                raise BadRecord(error.what, f"{key}.{error.field}" if error.field else key) from None
        if missing := [key for key in self._required if key not in form]:
            raise BadRecord(f"lacks {missing[0]!r}")
        return self.kind(**values)


def codec(kind: type[T]) -> RecordCodec[T]:
    """Return the codec of a class."""
    return _codec(kind)  # type: ignore[arg-type]  # classes can be hashed


@cache  # resolving the types of a class takes longer than reading a record
def _codec(kind: Any) -> RecordCodec[Any]:
    return RecordCodec(kind)


def _same(value: Any) -> Any:
    return value


def _writer(hint: Any) -> Convert:
    inside = get_args(hint)
    if NoneType in inside:
        write = _writer(inside[0])
        return lambda value: None if value is None else write(value)
    if hint is datetime:
        return utc_text
    if is_dataclass(hint):
        return codec(hint).form  # type: ignore[arg-type]  # a class
    if get_origin(hint) is tuple:
        write = _writer(inside[0])
        return list if write is _same else lambda value: [write(one) for one in value]
    if get_origin(hint) is Mapping:
        write = _writer(inside[1])
        return dict if write is _same else lambda value: {key: write(one) for key, one in value.items()}
    return _same


def _reader(hint: Any) -> Convert:
    """Return the function that makes a value of that type from JSON, or raises BadRecord."""
    inside = get_args(hint)
    if hint is Any:
        return _same
    if NoneType in inside:
        read = _reader(inside[0])
        return lambda value: None if value is None else read(value)
    if hint is datetime:
        return _time
    if is_dataclass(hint):
        return codec(hint).record  # type: ignore[arg-type]  # a class
    if get_origin(hint) is tuple:
        each, items = _reader(inside[0]), _only(list)
        return lambda value: tuple(map(each, items(value)))
    if get_origin(hint) is Mapping:
        each, entries = _reader(inside[1]), _only(dict)
        return entries if each is _same else lambda value: {key: each(one) for key, one in entries(value).items()}
    if get_origin(hint) is Literal:
        return _where(lambda value: isinstance(value, str) and value in inside)
    if hint in (int, float):
        kinds = (int, float) if hint is float else (int,)
        # `True` is an int to Python, and no number in JSON.
        return _where(lambda value: isinstance(value, kinds) and not isinstance(value, bool))
    return _only(hint)


def _only(kind: type) -> Convert:
    # Most fields are texts, and this saves them a call of `_where`.
    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise BadRecord(WRONG_TYPE)

    return read


def _where(accepted: Callable[[Any], bool]) -> Convert:
    def read(value: Any) -> Any:
        if accepted(value):
            return value
        raise BadRecord(WRONG_TYPE)

    return read


def _time(value: Any) -> datetime:
    try:
        return aware(datetime.fromisoformat(value)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRecord(WRONG_TYPE) from error
