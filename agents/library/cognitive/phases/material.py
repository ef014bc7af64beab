"""A cognitive agent's material: the sources of its sections, filled from the state of a journey. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agents.engine.events import Json
from agents.engine.state import JourneyState, RecordedWork
from agents.library.cognitive.model import CLOSING, JOHARI_DISCOVERY, LEARNING_INJECTION, Cognitive
from agents.library.cognitive.phases import memory_document
from agents.library.cognitive.setting import PhaseSetting, Predecessor
from agents.library.cognitive.sources import QUADRANTS, Source
from agents.prompts.prompt import cut, render
from agents.spec.description import shown
from agents.spec.yaml.field_path import located

ANSWER_TOKENS = 80
"""The most tokens that are shown of one question and its answer."""
FOUND_IN = {"open": "acknowledge", "hidden": "share", "unknown": "explore"}
"""The field of the discovery's work for each quadrant. The quadrant that the model is blind to has the person's answers."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A predecessor's memory document."""

    predecessor: Predecessor
    document: str


def loaded(setting: PhaseSetting, state: JourneyState) -> Sequence[Loaded]:
    """Return the memory documents of the setting's predecessors that its pattern asks for, newest first."""
    there = [(one, work) for one in setting.predecessors if (work := state.work.get(one.closing)) is not None]
    newest = sorted(there, key=lambda found: -found[1].seq)
    documents = [(one, _content(work).get("document")) for one, work in newest]
    found = [Loaded(one, document) for one, document in documents if isinstance(document, str)]
    return found[:1] if setting.pattern == "last" else found


@dataclass(frozen=True)
class Material:
    """An agent's material at one point of a journey. `state` has the agent's own names of phases."""

    cognitive: Cognitive
    setting: PhaseSetting
    state: JourneyState

    @property
    def learned(self) -> Mapping[str, Json]:
        """The work of the step that injects learnings; empty before it is done."""
        return _content(self.state.work.get(LEARNING_INJECTION))

    @property
    def task(self) -> str:
        """The id of the task; "" before it is known."""
        return str(self.learned.get("task", ""))

    def section(self, sources: Sequence[Source]) -> tuple[Source | None, str]:
        """Return the first source with content, and its content."""
        return next(((source, text) for source in sources if (text := self.of(source).strip())), (None, ""))

    def of(self, source: Source) -> str:
        """Return the present content of a source; "" if it has none."""
        match source.kind:
            case "brief":
                return self.state.brief
            case "task":
                return self.filled_in(self.setting.instructions)
            case "answers":
                return lines(self.answers())
            case "previous":
                documents = (
                    f"Left by {one.predecessor.agent}:\n{memory_document.digest(one.document)}" for one in self.loaded()
                )
                return next(documents, "")
            case "input":
                return in_words(self.state.inputs.get(source.name))
            case "step" | "earlier" | "work":
                return self._recorded(source)
            case "memory":
                of_agent = (one.document for one in self.loaded() if one.predecessor.agent == source.name)
                document, part = next(of_agent, ""), source.part
                return memory_document.section(document, part) if part else memory_document.digest(document)
            case "johari":
                return lines(self.quadrant(source.name))

    def filled_in(self, template: str) -> str:
        """Return a text of a skill with the brief and the inputs filled in."""
        inputs = {f"inputs.{name}": in_words(value) for name, value in self.state.inputs.items()}
        return render(template, {"brief": self.state.brief, **inputs}).strip()

    def loaded(self) -> Sequence[Loaded]:
        """Return the memory documents that this agent is given, newest first."""
        return loaded(self.setting, self.state)

    def _recorded(self, source: Source) -> str:
        """Return a field of a step: of this pass, of another pass of the agent, or of an agent whose document is loaded."""
        if source.kind == "step":
            return _field(self.state.work.get(source.name), source.part)
        if source.kind == "earlier":
            return _field(self._earlier(source.name), source.part)
        step, _, name = source.part.partition(".")
        of_agent = [one.predecessor.closing for one in self.loaded() if one.predecessor.agent == source.name]
        prefixes = [closing.removesuffix(CLOSING) for closing in of_agent]
        return next((_field(self.state.work.get(f"{prefix}{step}"), name) for prefix in prefixes), "")

    def _earlier(self, step: str) -> RecordedWork | None:
        """Return the newest work of a step in another pass of this agent: under another prefix, or before this pass began."""
        work, begun = self.state.work, self.state.work.get(LEARNING_INJECTION)
        names = [f"{prefix}{step}" for prefix in self.setting.earlier]
        found = [work[name] for name in names if name in work]
        # Injection begins each pass: a work recorded before it belongs to the pass before.
        if step in work and begun is not None and work[step].seq < begun.seq:
            found.append(work[step])
        return max(found, key=lambda one: one.seq, default=None)

    def answers(self, phases: Collection[str] | None = None) -> Sequence[str]:
        """Return the person's answers in this journey, or only to questions of these phases, each with its question."""
        return [
            cut(f"{one.get('question', '')} -> {one.get('answer', '')}", ANSWER_TOKENS)
            for phase, of_phase in self.state.answers.items()
            if phases is None or phase in phases
            for one in of_phase.values()
        ]

    def quadrant(self, name: str) -> Sequence[str]:
        """Return the content of one of the four quadrants: the journey's inputs, and the findings."""
        given = self.state.inputs.get("johari")
        before = given.get(name, []) if isinstance(given, Mapping) else []
        if name == "blind":
            return [*before, *self.answers()]
        found = _content(self.state.work.get(JOHARI_DISCOVERY)).get(FOUND_IN[name], [])
        return [*before, *found] if isinstance(found, list) else list(before)

    def quadrants(self) -> Mapping[str, Sequence[str]]:
        """Return the quadrants that are not empty, in their order."""
        return {name: found for name in QUADRANTS if (found := self.quadrant(name))}


def _content(work: RecordedWork | None) -> Mapping[str, Json]:
    return work.content if work is not None and isinstance(work.content, Mapping) else {}


def _field(work: RecordedWork | None, path: str) -> str:
    found = [value for _, value in located(_content(work), path.split("."))]
    return in_words(found[0] if len(found) == 1 else found)


def lines(texts: Sequence[str]) -> str:
    """Return the texts as a list."""
    return "\n".join(f"- {' '.join(text.split())}" for text in texts)


def in_words(value: Json) -> str:
    """Return a value in words. Texts in a list are not cut; if one has several lines, the texts are separate paragraphs."""
    if value is None or value in ([], {}):
        return ""
    if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return shown(value)
    return "\n\n".join(value) if any("\n" in text.strip() for text in value) else lines(value)
