"""Whether values from JSON are of the kinds that a record declares its fields with. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, get_args, get_origin


def fits(hint: Any) -> Callable[[Any], bool]:
    """Return what tells whether a value from JSON is of that type. `True` is no number."""
    inside = get_args(hint)
    if hint is Any:
        return lambda _value: True
    if get_origin(hint) is Literal:
        return lambda value: isinstance(value, str) and value in inside
    if get_origin(hint) is Mapping:
        each = fits(inside[1])
        return lambda value: isinstance(value, dict) and all(map(each, value.values()))
    if get_origin(hint) is tuple:
        each = fits(inside[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    if inside:  # one of several
        several = [fits(one) for one in inside]
        return lambda value: any(one(value) for one in several)
    if hint in (int, float):
        kinds = (int, float) if hint is float else (int,)
        return lambda value: isinstance(value, kinds) and not isinstance(value, bool)
    if hint is datetime:
        return lambda value: isinstance(value, datetime) and value.tzinfo is not None
    return lambda value: isinstance(value, hint)
