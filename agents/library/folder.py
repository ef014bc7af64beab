"""The agents of this program that are folders: `agent.yaml` and its prompts, with what is truly code in modules beside it.

`conditions.py` has the conditions that predicates can't express (`CONDITIONS`); `views.py` has what prompts and lists say about the
recorded work (`VIEWS`, fields of `Agent`, and `PLACEHOLDERS`, the names that its `values` fills in).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.resources import files

from agents.engine.agent import Agent
from agents.errors import NoSuchAgent
from agents.library.cognitive.library import AnyTool
from agents.spec.definition import read_agent
from agents.spec.problems import Problems
from agents.spec.yaml.reader import AgentFileReading
from agents.spec.yaml.values import read_marked

PACKAGE = "agents.library"
FILE = "agent.yaml"
MOST_ITEMS = 5_000
"""Ours may take long lists: no team can be locked out of a journey by a limit that came later."""


@cache
def agent(name: str) -> Agent:
    """Return one of the agents here.

    Raises:
        NoSuchAgent: its folder cannot be used; the message says where.
    """
    folder = f"{PACKAGE.replace('.', '/')}/{name}"
    here = files(f"{PACKAGE}.{name}")
    prompts = {f"{folder}/prompts/{one.name}": one.read_bytes() for one in (here / "prompts").iterdir()}
    code = {part: import_module(f"{PACKAGE}.{name}.{part}") for part in ("conditions", "views")}
    problems = Problems(f"{folder}/{FILE}")
    reading = AgentFileReading(
        name,
        problems.file,
        prompts,
        AnyTool(),
        problems,
        folder=folder,
        checks=code["conditions"].CONDITIONS,
        values=code["views"].PLACEHOLDERS,
        most_items=MOST_ITEMS,
    )
    own = read_agent(read_marked((here / FILE).read_bytes()), reading)
    if own is None or problems:
        raise NoSuchAgent(name, f"its definition cannot be used: {problems.told()[0]}")
    return replace(own, origin="built in", **code["views"].VIEWS)
