"""A cognitive agent, read from its folder. Pure.

The folder's `agent.yaml` is read like a team's agent, with one more block. Nothing raises: all problems are noted together, each
with its file and line, and then no agent is returned.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from agents.catalogue import heading_of
from agents.engine.agent import Agent
from agents.engine.events import Json, canonical
from agents.library.cognitive.model import (
    DONE,
    LEAST_FOCUS,
    LEAST_TERMS,
    MOST_FOCUS,
    MOST_TERMS,
    SHARED_CONDITIONS,
    SHARED_PHASES,
    Cognitive,
    FollowingStep,
)
from agents.library.cognitive.shared import shared
from agents.library.cognitive.sources import HEADINGS, QUADRANTS, WAYS, Source, source_of
from agents.prompts.context import Budget
from agents.spec.definition import NAME, ModelBlock, read_agent
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.schema.json_schema import described
from agents.spec.yaml.block import FileBlock, Words, entries, read_block
from agents.spec.yaml.reader import AgentFileReading
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked
from knowledge.tokens import count_tokens

FILE, BLOCK = "agent.yaml", "cognitive"
SECTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
FUNCTION = re.compile(r"[A-Z][A-Z0-9_]{2,39}")
CONTEXT_TOKENS = 700
"""The tokens of the input budget that a step's prompt and schema must leave free for its material."""
MOST_SECTIONS, MOST_SOURCES, MOST_PRIORITY = 12, 12, 6
Tokens = Annotated[int, Field(ge=100, le=100_000)]


@dataclass(frozen=True)
class Described:
    """The result of reading a folder: the agent, or why it cannot be used."""

    name: str
    file: str
    cognitive: Cognitive | None
    problems: tuple[SpecProblem, ...]


def _function(text: str) -> str:
    if not FUNCTION.fullmatch(text):
        raise ValueError(f"has the function {short(text)}: use one word in capitals")
    return text


class BudgetBlock(FileBlock):
    """Tokens of a step."""

    input: Tokens
    output: Tokens


class CognitiveBlock(FileBlock):
    """The texts around an agent's own steps. `model`, `budget`, `sections` and `follows` are read as blocks of their own."""

    function: Annotated[str, AfterValidator(_function)]
    model: Json = Field()
    budget: Json = Field()
    priority: Annotated[Words[str], Field(max_length=MOST_PRIORITY)]
    sections: Json = Field()
    focus: Annotated[Words[str], entries(LEAST_FOCUS, MOST_FOCUS, 120)]
    terms: Annotated[Words[str], entries(LEAST_TERMS, MOST_TERMS, 60)]
    takes: Annotated[Words[str], entries(0, 12, 40)] = ()
    follows: Json = None


class FollowsBlock(FileBlock):
    """When the work of a step follows from the record, and what it is then."""

    empty: str = ""
    work: dict[str, Json] = Field(default_factory=dict)
    copies: dict[str, str] = Field(default_factory=dict)
    previous: bool = False


def described_in(folder: str, files: Mapping[str, bytes], tools: Collection[str]) -> Described:
    """Return the agent of a folder, or its problems. It has the name of its folder.

    `files` are the bytes of its files by their names; `tools` are the names of all tools.
    """
    name, file = folder.rpartition("/")[2], f"{folder}/{FILE}"
    beside = {f"{folder}/{path}": raw for path, raw in files.items()}
    problems = Problems(file)
    inputs = shared().inputs["properties"]
    reading = AgentFileReading(name, file, beside, tools, problems, folder=folder, built_in=True, shared_inputs=inputs)
    cognitive = None
    if not NAME.fullmatch(name):
        problems.add(
            1, f"an agent cannot be called {short(name)}: use lower-case letters, digits and hyphens, at most 40"
        )
    if file not in beside:
        problems.add(1, f"the folder has no {FILE}")
    else:
        try:
            cognitive = _cognitive(read_marked(beside[file]), reading)
        except UnreadableFile as error:
            problems.add(error.line, error.reason)
    return Described(name, file, None if problems else cognitive, tuple(problems.in_order()))


def _cognitive(top: Marked, reading: AgentFileReading) -> Cognitive | None:
    own = read_agent(top, reading)
    problems = reading.problems
    heading = tuple(top.entries[key].value if key in top.entries else "" for key in ("title", "summary"))
    # Lists of agents read these two lines alone, so that a start does not parse every file.
    if heading_of(reading.files[reading.file].decode("utf-8-sig")) != heading:
        text = "line 1 must be `title: ...` and line 2 `summary: ...`, each on one line: lists read no more of the file"
        problems.add(1, text)
    for name in reading.names:
        if name in SHARED_PHASES:
            problems.add(reading.lines[name], f"every cognitive agent has a phase {name!r}: give this another name")
    for name, line in reading.condition_lines.items():
        if name in SHARED_CONDITIONS:
            problems.add(line, f"every cognitive agent has a condition {name!r}: give this another name")
    _one_by_one(top, reading)
    found = top.take(BLOCK)
    if found is None:
        problems.add(top.line, f"the agent lacks {BLOCK!r}: the text around its steps")
        return None
    return _block(found, own, reading)


def _one_by_one(top: Marked, reading: AgentFileReading) -> None:
    """Note each step that could be skipped: a step may lead forward only to the next one in the list."""
    names, problems = reading.names, reading.problems
    complete, initial = top.take("complete"), top.take("initial")
    if names and (names[-1] != DONE or complete is None or complete.plain() not in (DONE, [DONE])):
        text = f"the last phase must be {DONE}, the only one in which the agent is complete"
        problems.add(top.line_at(["complete"]), text)
        return
    if names and (initial is None or initial.value != names[0]):
        problems.add(top.line_at(["initial"]), f"the agent must begin in {names[0]}, its first step")
    following = dict(pairwise(names))
    for way in reading.transitions:
        t, next_ = way.transition, following.get(way.transition.source, "")
        if t.source in names and t.target in names and not t.is_backward and t.target != next_:
            text = f"the transition {t.source} -> {t.target} skips steps: forward, {t.source} leads only to {next_}"
            problems.add(way.line, text)


def _block(found: Marked, own: Agent | None, reading: AgentFileReading) -> Cognitive | None:
    what, problems = repr(BLOCK), reading.problems
    block = read_block(CognitiveBlock, found, what, problems)
    model, budget = found.take("model"), found.take("budget")
    advice = read_block(ModelBlock, model, f"'model' of {what}", problems) if model else None
    tokens = read_block(BudgetBlock, budget, f"'budget' of {what}", problems) if budget else None
    if tokens is not None:
        _within_budget(tokens.input, reading)
    sections = _sections(found.take("sections"), reading)
    follows = _follows(found.take("follows"), reading)
    for number, name in enumerate(block.priority if block else ()):
        if name not in sections:
            line = found.line_at(["priority", number])
            problems.add(line, f"'priority' names {short(name)}, which is not a section{meant(name, sections)}")
    if own is None or block is None or advice is None or tokens is None:
        return None
    return Cognitive(
        name=own.name,
        title=own.title,
        summary=own.summary,
        function=block.function,
        advice=advice.advice(),
        budget=Budget(tokens.input, tokens.output),
        priority=tuple(dict.fromkeys(block.priority)),
        sections=sections,
        focus=block.focus,
        terms=block.terms,
        takes=block.takes,
        own=own,
        follows=follows,
    )


def _within_budget(tokens: int, reading: AgentFileReading) -> None:
    """Note steps whose prompt and schema leave no room for the material to work on."""
    for phase in reading.phases:
        form = reading.forms.get(phase.name)
        prompts = [reading.texts[key].text for key in (phase.prompt, phase.prompt_again) if key in reading.texts]
        if form is None or not prompts:
            continue
        size = count_tokens(canonical(dict(form.schema))) + max(map(count_tokens, prompts))
        most = tokens - CONTEXT_TOKENS
        if size > most:
            text = (
                f"prompt and schema of {phase.name} take {size:,} tokens, at most {most:,} of its input budget of {tokens:,} are "
                "for them: shorten them"
            )
            reading.problems.add(reading.lines[phase.name], text)


def _sections(found: Marked | None, reading: AgentFileReading) -> Mapping[str, tuple[Source, ...]]:
    if found is None:
        return {}
    problems, sections = reading.problems, dict[str, tuple[Source, ...]]()
    if not 0 < len(found.entries) <= MOST_SECTIONS:
        text = f"'sections' must have 1 to {MOST_SECTIONS} sections, and has {len(found.entries)}"
        problems.add(found.line, text)
    for name, listed in list(found.entries.items())[:MOST_SECTIONS]:
        line = found.key_lines[name]
        if not SECTION_NAME.fullmatch(name):
            problems.add(line, f"a section cannot be called {short(name)}: use small letters and _")
        items = listed.items if isinstance(listed.value, list) else [listed]
        if not 0 < len(items) <= MOST_SOURCES:
            problems.add(line, f"section {name!r} takes 1 to {MOST_SOURCES} sources")
        sources = []
        for item in items:
            source = source_of(item.value) if isinstance(item.value, str) else None
            if source is None:
                problems.add(item.line, f"there is no source {short(str(item.value))}; sources are {', '.join(WAYS)}")
            elif wrong := _wrong(source, reading):
                problems.add(item.line, f"the source {short(str(source))} {wrong}")
            else:
                sources.append(source)
        sections[name] = tuple(sources)
    return sections


def _follows(found: Marked | None, reading: AgentFileReading) -> Mapping[str, FollowingStep]:
    """Return the steps that the server may do, and note sources that can never have content."""
    steps: dict[str, FollowingStep] = {}
    for name, marked in (found.entries if found else {}).items():
        what, line = f"'follows' of {name}", marked.line
        if name not in reading.forms:
            reading.problems.add(line, f"'follows' names {short(name)}, which is no step{meant(name, reading.forms)}")
        block = read_block(FollowsBlock, marked, what, reading.problems)
        if block is None:
            continue
        named = [block.empty] if block.empty else []
        sources = {text: source_of(text) for text in (*named, *block.copies.values())}
        for text, source in sources.items():
            wrong = (
                _wrong(source, reading)
                if source and source.kind == "step"
                else "is no field of a step (step:STEP.field)"
            )
            if wrong:
                reading.problems.add(line, f"{what}: the source {short(text)} {wrong}")
        if block.previous is bool(block.empty):
            reading.problems.add(line, f"{what} takes either 'empty' or 'previous': when the server does the step")
        copies = {field: source for field, text in block.copies.items() if (source := sources[text])}
        steps[name] = FollowingStep(sources.get(block.empty), block.work, copies, block.previous)
    return steps


def _wrong(source: Source, reading: AgentFileReading) -> str:
    """Return why a source can never have content; "" if it can."""
    match source.kind:
        case "johari" if source.name not in QUADRANTS:
            return f"names no quadrant{meant(source.name, QUADRANTS)}"
        case "input" if source.name not in (inputs := reading.inputs.get("properties", {})):
            return "" if reading.broken_inputs else f"names no input{meant(source.name, inputs)}"
        case "memory" if source.part and source.part not in HEADINGS:
            return f"names no section of a memory document{meant(source.part, HEADINGS)}"
        case "work" if not all(source.part.partition(".")):
            return "lacks a step or a field: write work:AGENT.STEP.field"
        case "step" | "earlier":
            return _wrong_field(source, reading)
        case _:
            return ""


def _wrong_field(source: Source, reading: AgentFileReading) -> str:
    form, steps = reading.forms.get(source.name), [name for name in reading.names if name != DONE]
    if source.name not in steps:
        return f"names no step{meant(source.name, steps)}"
    if not source.part:
        return f"lacks the field: write {source.kind}:{source.name}.field"
    lacking = described(form.described, source.part.split(".")) if form else None
    return f"names no field of {source.name}{meant(lacking[0], lacking[1])}" if lacking else ""
