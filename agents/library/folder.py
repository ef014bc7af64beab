"""The agents of this program that are folders: `agent.yaml` and its prompts, with code for everything that data can't express.

`conditions.py` has the conditions that predicates can't express: each public coroutine function is one, under its own name.
`views.py` describes the recorded work for prompts and lists: `VIEWS` are fields of `Agent`, and `PLACEHOLDERS` the names that
its `values` fills in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from inspect import iscoroutinefunction
from types import ModuleType

from agents.catalogue import PACKAGE
from agents.engine.agent import Agent, Condition
from agents.errors import NoSuchAgent
from agents.spec.definition import read_agent
from agents.spec.problems import Problems
from agents.spec.yaml.reader import AgentFileReading, AnyTool
from agents.spec.yaml.values import read_marked

MOST_ITEMS = 5_000
"""Larger than a team's limit: earlier releases accepted lists this long, and their journeys must stay readable."""


@cache
def agent(name: str) -> Agent:
    """Return one of the agents here.

    Raises:
        NoSuchAgent: its folder cannot be used; the message says where.
    """
    folder = f"{PACKAGE.replace('.', '/')}/{name}"
    here = files(f"{PACKAGE}.{name}")
    prompts = {f"{folder}/prompts/{one.name}": one.read_bytes() for one in (here / "prompts").iterdir()}
    conditions, views = (import_module(f"{PACKAGE}.{name}.{part}") for part in ("conditions", "views"))
    checks = _conditions(conditions)
    problems = Problems(f"{folder}/agent.yaml")
    reading = AgentFileReading(
        name,
        problems.file,
        prompts,
        AnyTool(),
        problems,
        folder=folder,
        built_in=True,
        checks=checks,
        values=views.PLACEHOLDERS,
        most_items=MOST_ITEMS,
    )
    own = read_agent(read_marked((here / "agent.yaml").read_bytes()), reading)
    if own is None or problems:
        raise NoSuchAgent(name, f"its definition cannot be used: {problems.in_order()[0]}")
    return replace(own, origin="built in", conditions={**checks, **own.conditions}, **views.VIEWS)


def _conditions(module: ModuleType) -> Mapping[str, Condition]:
    own = {name: one for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__}
    return {name: one for name, one in own.items() if iscoroutinefunction(one) and not name.startswith("_")}
