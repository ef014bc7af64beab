"""A small cognitive agent as a folder of data, and ways to read it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from agents.library.cognitive.definition import Described, described_in
from agents.library.cognitive.model import Cognitive
from tests.support.agents.team_agents import OWN_TOOLS as TOOLS

FOLDER = "agents/library/cognitive/appraisal"
AGENT = """\
title: Appraisal
summary: Says what a thing is worth, and why.
cognitive:
  function: APPRAISAL
  model: {class: balanced, example: sonnet, reason: It weighs few things at a time.}
  budget: {input: 1500, output: 800}
  priority: [subject, limits]
  sections:
    subject: ["memory:analysis#Downstream Directives", "input:subject", brief]
    limits: ["input:constraints", "johari:blind"]
    signs: ["step:LOOK.signs"]
    before: ["earlier:JUDGE.worth"]
  focus: [what it is made of, what wears out, what others paid]
  terms: [price, value, wear, age, repair, market, demand]
  takes: [analysis]
inputs:
  properties:
    subject: {type: string, description: What is appraised.}
initial: LOOK
complete: DONE
phases:
  - name: LOOK
    purpose: what can be seen
    tools: [kb_search, kb_read]
    prompt: look.md
    prompt_again: Look again at what was doubted.
    work:
      properties:
        signs:
          type: array
          items:
            type: object
            properties:
              id: {type: string}
              text: {type: string}
            required: [id, text]
  - name: JUDGE
    purpose: what it is worth
    prompt: "Submit `worth` and `reason`. If a sign is missing submit `doubt` alone."
    work:
      properties:
        worth: {type: string}
        reason: {type: string}
        doubt: {type: string}
      x-asks: [doubt]
  - name: DONE
transitions:
  - {from: LOOK, to: JUDGE, condition: looked}
  - {from: JUDGE, to: LOOK, condition: doubted, is_backward: true}
  - {from: JUDGE, to: DONE, condition: judged}
conditions:
  looked: {at_least: {field: signs, count: 2}}
  doubted: {given: doubt, detail: doubt}
  judged: {filled: [worth, reason]}
"""
LOOK = "Look at {{ inputs.subject }}.\nSubmit two `signs` or more, each with `id` and `text`.\n"
BESIDE: Mapping[str, bytes] = {"look.md": LOOK.encode()}


def read(text: str = AGENT, *, folder: str = FOLDER, **beside: str) -> Described:
    """Return the result of reading the folder; `beside` replaces Markdown files beside it, by name without suffix."""
    others = {**BESIDE, **{f"{name}.md": told.encode() for name, told in beside.items()}}
    return described_in(folder, {"agent.yaml": text.encode(), **others}, TOOLS)


@cache
def appraisal(text: str = AGENT) -> Cognitive:
    """Return the small agent, which has no problems."""
    found = read(text)
    assert found.problems == ()
    assert found.cognitive is not None
    return found.cognitive


def write(folder: Path, text: str = AGENT) -> None:
    """Write the small agent as a folder."""
    folder.mkdir(parents=True)
    for name, raw in {"agent.yaml": text.encode(), **BESIDE}.items():
        (folder / name).write_bytes(raw)
