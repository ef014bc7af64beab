"""From a folder of data to a cognitive agent. Pure.

The folder's `agent.yaml` is a team's agent, read by the same reader, with one block more. Nothing raises: whatever is wrong is
noted with its file and line, all of it at once, and then there is no agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from agents.catalogue import heading_of
from agents.engine.agent import Agent, ModelAdvice
from agents.engine.events import canonical
from agents.library.cognitive.model import (
    DONE,
    INPUTS,
    LEAST_FOCUS,
    LEAST_TERMS,
    MOST_FOCUS,
    MOST_TERMS,
    SHARED_CONDITIONS,
    SHARED_PHASES,
    Cognitive,
)
from agents.library.cognitive.sources import HEADINGS, QUADRANTS, WAYS, Source, source_of
from agents.prompts.context import Budget
from agents.spec.definition import NAME, model_advice, read_agent
from agents.spec.problems import Problems, SpecProblem, meant, short
from agents.spec.schema.json_schema import described
from agents.spec.yaml.block import MappingReader
from agents.spec.yaml.reader import AgentFileReading, ReadTransition
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked
from knowledge.tokens import count_tokens

FILE = "agent.yaml"
BLOCK = "cognitive"
SECTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
FUNCTION = re.compile(r"[A-Z][A-Z0-9_]{2,39}")
LEAST_TOKENS, MOST_TOKENS = 100, 100_000
CONTEXT_TOKENS = 700
"""Of its input budget an agent leaves so much free of prompt and schema, or there would be no room for what it works on."""
MOST_SECTIONS, MOST_SOURCES, MOST_PRIORITY = 12, 12, 6


@dataclass(frozen=True)
class Described:
    """A folder, read: the agent, or why there is none."""

    name: str
    file: str
    cognitive: Cognitive | None
    problems: tuple[SpecProblem, ...]


def described_in(folder: str, files: Mapping[str, bytes], tools: Collection[str]) -> Described:
    """Return the agent of a folder, or what is wrong with it. It is called as its folder is.

    `files` has the bytes of its files by their names; `tools` are the names of those that there are.
    """
    name, file = folder.rpartition("/")[2], f"{folder}/{FILE}"
    beside = {f"{folder}/{path}": raw for path, raw in files.items()}
    problems = Problems(file)
    reading = AgentFileReading(name, file, beside, tools, problems, folder=folder)
    cognitive = None
    if not NAME.fullmatch(name):
        problems.add(1, f"an agent cannot be called {short(name)}: lower-case letters, digits and hyphens, at most 40")
    if file not in beside:
        problems.add(1, f"the folder has no {FILE}")
    else:
        try:
            cognitive = _cognitive(read_marked(beside[file]), reading)
        except UnreadableFile as error:
            problems.add(error.line, error.reason)
    return Described(name, file, None if problems else cognitive, tuple(problems.told()))


def _cognitive(marked: Marked, reading: AgentFileReading) -> Cognitive | None:
    block = marked.entries.get(BLOCK)
    if block is None:
        reading.problems.add(marked.line, f"the agent lacks {BLOCK!r}: what is told around its steps")
    own = read_agent(_plain_agent(marked), reading)
    _heading(marked, reading)
    _named_apart(reading)
    _one_by_one(marked, reading)
    _declared_inputs(marked, reading)
    if block is None:
        return None
    return _Block(MappingReader(block, repr(BLOCK), reading.problems), reading).cognitive(own)


def _plain_agent(marked: Marked) -> Marked:
    """Return the agent without its block, and with the inputs that all take."""
    if not isinstance(marked.value, dict):
        return marked
    entries = {key: inside for key, inside in marked.entries.items() if key != BLOCK}
    given = _entry(entries, "inputs", marked.line)
    named = _entry(given.entries, "properties", given.line)
    if isinstance(given.value, dict) and isinstance(named.value, dict):
        shared = read_marked(canonical(dict(INPUTS)).encode()).entries
        lines = {**dict.fromkeys(shared, named.line), **named.key_lines}
        properties = replace(named, value={**shared, **named.entries}, key_lines=lines)
        lines = {"properties": named.line, **given.key_lines}
        entries["inputs"] = replace(given, value={**given.entries, "properties": properties}, key_lines=lines)
    return replace(marked, value=entries)


def _entry(entries: Mapping[str, Marked], key: str, line: int) -> Marked:
    """Return what stands at the key; an empty mapping if nothing does."""
    found = entries.get(key)
    return Marked({}, line) if found is None or found.value is None else found


def _declared_inputs(marked: Marked, reading: AgentFileReading) -> None:
    named = marked.entries.get("inputs", Marked({}, 0)).entries.get("properties", Marked({}, 0))
    for name in named.entries:
        if name in INPUTS:
            reading.problems.add(named.key_lines[name], f"every cognitive agent takes the input {name!r}: leave it out")


def _heading(marked: Marked, reading: AgentFileReading) -> None:
    """Note if title and summary are not where lists look for them, without reading the rest."""
    told = tuple(marked.entries[key].value if key in marked.entries else "" for key in ("title", "summary"))
    if heading_of(reading.files[reading.file].decode("utf-8-sig")) != told:
        text = (
            "line 1 is `title: ...` and line 2 `summary: ...`, each whole on its line: lists read no more of the file"
        )
        reading.problems.add(1, text)


def _named_apart(reading: AgentFileReading) -> None:
    """Note what is called as something that every cognitive agent has."""
    for name in reading.names:
        if name in SHARED_PHASES:
            reading.problems.add(
                reading.lines[name], f"every cognitive agent has a phase {name!r}: give this another name"
            )
    for name, line in reading.condition_lines.items():
        if name in SHARED_CONDITIONS:
            reading.problems.add(line, f"every cognitive agent has a condition {name!r}: give this another name")


def _one_by_one(marked: Marked, reading: AgentFileReading) -> None:
    """Note where a step could be passed by: each leads forward to the next one alone, in the order in which they are listed."""
    names = reading.names
    if names and (names[-1] != DONE or _word(marked, "complete") != [DONE]):
        reading.problems.add(
            marked.line_at(["complete"]), f"the last phase is {DONE}, and the agent is complete there alone"
        )
        return
    if names and _word(marked, "initial") != names[:1]:
        reading.problems.add(marked.line_at(["initial"]), f"it begins in {names[0]}, the first step")
    following = dict(pairwise(names))
    for way in reading.ways:
        _no_step_passed_by(way, following, names, reading)


def _no_step_passed_by(
    way: ReadTransition, following: Mapping[str, str], names: list[str], reading: AgentFileReading
) -> None:
    t = way.transition
    if t.source not in names or t.target not in names:
        return
    next_ = following.get(t.source, "")
    if not t.is_backward and t.target != next_:
        text = f"the transition {t.source} -> {t.target} passes steps by: forward, {t.source} leads to {next_} alone"
        reading.problems.add(way.line, text)


def _word(marked: Marked, key: str) -> list[object]:
    found = marked.entries.get(key)
    if found is None:
        return []
    return [item.value for item in found.items] if isinstance(found.value, list) else [found.value]


def _within_budget(budget: Budget, reading: AgentFileReading) -> None:
    """Note the steps whose prompt and schema leave no room for what is to be worked on."""
    for phase in reading.phases:
        form = reading.forms.get(phase.name)
        prompts = [reading.texts[key].text for key in (phase.prompt, phase.prompt_again) if key in reading.texts]
        if form is None or not prompts:
            continue
        size = count_tokens(canonical(dict(form.schema))) + max(count_tokens(text) for text in prompts)
        most = budget.tokens_in - CONTEXT_TOKENS
        if size > most:
            text = (
                f"prompt and schema of {phase.name} take {size:,} tokens, at most {most:,} of its input budget of "
                f"{budget.tokens_in:,} are for them: shorten them"
            )
            reading.problems.add(reading.lines[phase.name], text)


class _Block:
    """Reads the block of what is told around an agent's steps."""

    def __init__(self, block: MappingReader, reading: AgentFileReading) -> None:
        self._block, self._reading, self._problems = block, reading, reading.problems

    def cognitive(self, own: Agent | None) -> Cognitive | None:
        """Return the agent with what the block says; None if its own steps could not be read."""
        block = self._block
        function = block.text("function", most=40, needed=True)
        if function and not FUNCTION.fullmatch(function):
            self._problems.add(block.line("function"), f"'function' is one word in capitals, not {short(function)}")
        advice, budget, sections = self._advice(), self._budget(), dict(self._sections())
        priority = self._priority(sections)
        focus, terms = (
            self._words("focus", LEAST_FOCUS, MOST_FOCUS, 120),
            self._words("terms", LEAST_TERMS, MOST_TERMS, 60),
        )
        takes = self._words("takes", 0, 12, 40)
        block.done()
        if own is None:
            return None
        return Cognitive(
            name=own.name,
            title=own.title,
            summary=own.summary,
            function=function,
            advice=advice,
            budget=budget,
            priority=priority,
            sections=sections,
            focus=focus,
            terms=terms,
            takes=takes,
            own=own,
        )

    def _inner(self, key: str) -> MappingReader | None:
        found = self._block.take(key, needed=True)
        return None if found is None else MappingReader(found, f"{key!r} of {self._block.what}", self._problems)

    def _advice(self) -> ModelAdvice:
        inner = self._inner("model")
        return ModelAdvice("", "") if inner is None else model_advice(inner)

    def _budget(self) -> Budget:
        inner = self._inner("budget")
        if inner is None:
            return Budget()
        sizes = {}
        for key in ("input", "output"):
            inner.take(key, needed=True)
            sizes[key] = inner.number(key, least=LEAST_TOKENS, most=MOST_TOKENS, usual=0)
        inner.done()
        budget = Budget(sizes["input"], sizes["output"])
        if budget.tokens_in:
            _within_budget(budget, self._reading)
        return budget

    def _priority(self, sections: Mapping[str, tuple[Source, ...]]) -> tuple[str, ...]:
        names = self._block.words("priority", needed=True)
        if len(names) > MOST_PRIORITY:
            self._problems.add(self._block.line("priority"), f"at most {MOST_PRIORITY} sections have priority")
        for name, line in names:
            if name not in sections:
                self._problems.add(line, f"'priority' names {short(name)}, which is no section{meant(name, sections)}")
        return tuple(dict.fromkeys(name for name, _ in names))

    def _sections(self) -> Iterator[tuple[str, tuple[Source, ...]]]:
        inner = self._inner("sections")
        if inner is None:
            return
        names = list(inner.marked.entries)
        if not names or len(names) > MOST_SECTIONS:
            self._problems.add(
                inner.marked.line, f"'sections' has from 1 to {MOST_SECTIONS} sections, and has {len(names)}"
            )
        for name in names[:MOST_SECTIONS]:
            if not SECTION_NAME.fullmatch(name):
                self._problems.add(inner.line(name), f"a section cannot be called {short(name)}: small letters and _")
            found = [source for text, line in inner.words(name, needed=True) if (source := self._source(text, line))]
            if not 0 < len(found) <= MOST_SOURCES:
                self._problems.add(inner.line(name), f"section {name!r} takes from 1 to {MOST_SOURCES} sources")
            yield name, tuple(found)

    def _source(self, text: str, line: int) -> Source | None:
        source = source_of(text)
        if source is None:
            self._problems.add(line, f"there is no source {short(text)}; sources are {', '.join(WAYS)}")
            return None
        wrong = self._wrong(source)
        if wrong:
            self._problems.add(line, f"the source {short(text)} {wrong}")
            return None
        return source

    def _wrong(self, source: Source) -> str:
        """Return why nothing can come of a source, "" if something can."""
        match source.kind:
            case "johari" if source.name not in QUADRANTS:
                return f"names no quadrant{meant(source.name, QUADRANTS)}"
            case "input" if source.name not in self._reading.inputs.get("properties", {}):
                known = self._reading.inputs.get("properties", {})
                return "" if self._reading.broken_inputs else f"names no input{meant(source.name, known)}"
            case "memory" if source.part and source.part not in HEADINGS:
                return f"names no section of a memory document{meant(source.part, HEADINGS)}"
            case "work" if not all(source.part.partition(".")):
                return "lacks the step or the field: write work:AGENT.STEP.field"
            case "step" | "earlier":
                return self._wrong_field(source)
            case _:
                return ""

    def _wrong_field(self, source: Source) -> str:
        reading = self._reading
        form = reading.forms.get(source.name)
        if source.name not in reading.names or source.name == DONE:
            return f"names no step{meant(source.name, [name for name in reading.names if name != DONE])}"
        if not source.part:
            return f"lacks the field: write {source.kind}:{source.name}.field"
        if form is None:
            return ""
        lacking = described(form.described, source.part.split("."))
        return f"names no field of {source.name}{meant(lacking[0], lacking[1])}" if lacking else ""

    def _words(self, key: str, least: int, most: int, chars: int) -> tuple[str, ...]:
        found = self._block.words(key, needed=least > 0)
        words = tuple(dict.fromkeys(" ".join(word.split()) for word, _ in found if word.strip()))
        if not least <= len(words) <= most:
            text = f"{key!r} has {len(words)} different entries, from {least} to {most} are needed"
            self._problems.add(self._block.line(key), text)
        for word, line in found:
            if len(word) > chars:
                self._problems.add(line, f"an entry of {key!r} has {len(word)} characters, at most {chars} are taken")
        return words
