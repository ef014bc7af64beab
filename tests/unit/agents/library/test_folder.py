"""Built-in agents that are folders of data: their code's statements about them are true, and mistakes are found."""

from __future__ import annotations

from importlib import import_module

import pytest

from agents.catalogue import built_in, main_entries
from agents.engine.graph import ALWAYS, checked
from agents.library.folder import agent
from tests.support.agents.agent_harness import TOOLS
from tests.support.journeys.graphs import Walk

FOLDERS = [entry.name for entry in main_entries() if entry.module == "agents.library.folder"]


@pytest.mark.parametrize("name", FOLDERS)
def test_an_agent_has_the_conditions_and_placeholders_that_its_code_promises(name: str) -> None:
    """Our promise: a prompt can only name variables that are filled in, and every check is used by a transition."""
    own, views = agent(name), import_module(f"agents.library.{name}.views")
    assert set(views.PLACEHOLDERS) == set(own.values(Walk(own.graph).state))
    assert {t.condition for t in own.graph.transitions} - {ALWAYS} == set(own.conditions)
    assert checked(own.graph, own.known_conditions, TOOLS) is own.graph
    assert (own.name, own.origin) == (name, "built in")
    assert built_in(name) is own
