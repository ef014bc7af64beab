"""Every event of a journey, the newest kind included, has a sentence and can be stored."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, get_args, get_type_hints

import pytest

from agents.engine.events import Event, event_of, event_text
from agents.report.sentences import event_sentence


def example(kind: type[Any]) -> Event:
    """Return an event with the simplest value of each field."""
    hints = get_type_hints(kind)
    values = {field.name: simplest(hints[field.name]) for field in fields(kind) if needs_value(field)}
    made: Event = kind(**values)
    return made


def needs_value(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def simplest(hint: Any) -> Any:
    """Return the first word of a literal, or the zero value of another type."""
    literals = [one for one in get_args(hint) if isinstance(one, str)]
    return literals[0] if literals else {} if hint is Any else hint()


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.TYPE)
def test_every_event_has_a_sentence_and_can_be_stored(kind: type[Any]) -> None:
    event = example(kind)
    assert str(event_sentence(event)), "add a case to agents/report/sentences.py"
    assert event_of(event_text(event)) == event
