"""The phases that all cognitive agents have around their own steps, read from `shared.yaml`, and the inputs that all take."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files

from agents.catalogue import COGNITIVE
from agents.engine.agent import Agent
from agents.library.cognitive.model import CLOSING, DOCUMENT, SHARED_CONDITIONS
from agents.spec.definition import read_agent
from agents.spec.problems import Problems
from agents.spec.schema.work_form import SchemaForm
from agents.spec.yaml.reader import AgentFileReading, AnyTool
from agents.spec.yaml.values import read_marked

PLACEHOLDERS = ("task", "name", "lookup")


@cache
def shared() -> Agent:
    """Return these phases as an agent without steps of its own.

    Raises:
        ValueError: the file has a mistake.
    """
    folder, here = COGNITIVE.replace(".", "/"), files(COGNITIVE)
    prompts = {f"{folder}/prompts/{one.name}": one.read_bytes() for one in (here / "prompts").iterdir()}
    problems = Problems(f"{folder}/shared.yaml")
    reading = AgentFileReading(
        "shared",
        problems.file,
        prompts,
        AnyTool(),
        problems,
        folder=folder,
        built_in=True,
        checks=SHARED_CONDITIONS,
        values=PLACEHOLDERS,
    )
    agent = read_agent(read_marked((here / "shared.yaml").read_bytes()), reading)
    if agent is None or problems:
        raise ValueError("; ".join(map(str, problems.in_order())))
    # Hosts may submit the document themselves, as those of older versions do, but no model is asked for it.
    closing = agent.forms[CLOSING]
    unshown = replace(closing, unshown=frozenset({DOCUMENT})) if isinstance(closing, SchemaForm) else closing
    return replace(agent, forms={**agent.forms, CLOSING: unshown})
