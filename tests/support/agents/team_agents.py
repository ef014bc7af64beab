"""A small agent as a team writes it, and ways to read it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from agents.engine.agent import Agent
from agents.spec.definition import Definition, defined
from tests.support.agents.agent_harness import TOOLS

HANDBOOK = Path(__file__).parents[3] / "kb"
OWN_TOOLS = TOOLS | {"proposal_status"}
FILE = "_agents/review.yaml"
SMALL = """\
title: Review
summary: Notes, then a verdict.
inputs:
  properties:
    topic: {type: string, description: What it is about.}
initial: NOTE
complete: DONE
phases:
  - name: NOTE
    purpose: what was seen
    checkpoint: optional
    question: Is anything missing?
    tools: [kb_read, kb_search]
    prompt: |
      Note what you see of {{ inputs.topic }}.

      Brief: {{ brief }}
    prompt_again: notes/again.md
    work:
      properties:
        notes:
          type: array
          items:
            type: object
            properties:
              id: {type: string}
              text: {type: string}
              evidence: {type: array, items: {$ref: "#/$defs/quoted"}}
            required: [id]
  - name: JUDGE
    checkpoint: blocking
    verified: true
    prompt: "Judge: {{ NOTE.notes }}"
    work: notes/verdict.json
  - name: DONE
    prompt: Say goodbye.
transitions:
  - {from: NOTE, to: JUDGE, condition: noted}
  - {from: JUDGE, to: DONE, condition: judged}
  - {from: JUDGE, to: NOTE, condition: note_lacks, is_backward: true}
conditions:
  noted:
    all:
      - at_least: {field: notes, count: 2}
      - each_has: {field: notes, fields: [text]}
  judged:
    filled: verdict
  note_lacks:
    detail: lacks
    all:
      - given: lacks
      - signal: note_lacks
"""
AGAIN = """\
---
title: Again
---

Add what was missing.
Why: {{ why }}
"""
VERDICT = """\
{
  "type": "object",
  "properties": {
    "verdict": {"type": "string"},
    "lacks": {"type": "string"}
  },
  "x-asks": ["lacks"]
}
"""
BESIDE: Mapping[str, bytes] = {
    "_agents/notes/again.md": AGAIN.encode(),
    "_agents/notes/verdict.json": VERDICT.encode(),
}


def read(text: str | bytes = SMALL, *, file: str = FILE, **beside: str) -> Definition:
    """Return the result of reading a file; `beside` replaces files beside it, by name without folder and suffix."""
    raw = text.encode() if isinstance(text, str) else text
    files = {**BESIDE, file: raw}
    for path in BESIDE:
        name = path.rpartition("/")[2].partition(".")[0]
        if name in beside:
            files[path] = beside[name].encode()
    return defined(file, files, OWN_TOOLS, {"research", "build"})


@cache
def agent(text: str = SMALL) -> Agent:
    """Return the agent of that text, which has no problems."""
    definition = read(text)
    assert definition.problems == ()
    assert definition.agent is not None
    return definition.agent


def handbook_agent(name: str) -> Agent:
    """Return one of the handbook's agents."""
    folder = HANDBOOK / "_agents"
    files = {p.relative_to(HANDBOOK).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    definition = defined(f"_agents/{name}.yaml", files, OWN_TOOLS)
    assert definition.problems == ()
    assert definition.agent is not None
    return definition.agent


def write(folder: Path, text: str = SMALL, file: str = FILE) -> None:
    """Write the small agent, and the files beside it, into a knowledge base."""
    for path, raw in {**BESIDE, file: text.encode()}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(raw)
