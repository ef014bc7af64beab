"""The state of reading a team's agent from its file and the files beside it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine.events import Json
from agents.engine.graph import CheckpointKind, Phase, Transition
from agents.spec.files import FOLDER
from agents.spec.predicates.conditions import ReadCondition
from agents.spec.problems import Problems, meant, short
from agents.spec.schema.json_schema import USUAL_ITEMS
from agents.spec.schema.work_form import SchemaForm
from agents.spec.yaml.values import MOST_BYTES, Marked
from knowledge.errors import InvalidPath
from knowledge.pages.paths import clean_path


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A template, and where it is: `line` is the line of its first character."""

    text: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ReadTransition:
    """A transition, and where it is in the file."""

    transition: Transition
    line: int
    condition_line: int


@dataclass(frozen=True, slots=True)
class PhaseNeed:
    """A key of a phase that makes sense only if a person is asked there: at a checkpoint of these kinds, or by `asks`."""

    phase: str
    kinds: tuple[CheckpointKind, ...]
    line: int
    text: str
    asks: bool = False


class AnyTool(Collection[str]):
    """A collection that contains every name. Tests prove that the tools which built-in agents name exist."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass
class AgentFileReading:
    """Everything read from an agent's file so far. Files beside it are looked up in `folder`.

    A `built_in` file may name `models` and automatic phases, and may have code: `checks` are the conditions in code, `values` the
    placeholders that the code fills in. `shared_inputs` are inputs that all agents of its kind take; `most_items` is the default
    limit of a list.
    """

    name: str
    file: str
    files: Mapping[str, bytes]
    tools: Collection[str]
    problems: Problems
    reads: set[str] = field(default_factory=set)
    lines: dict[str, int] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    texts: dict[str, TemplateText] = field(default_factory=dict)
    forms: dict[str, SchemaForm] = field(default_factory=dict)
    broken_forms: set[str] = field(default_factory=set)
    questions: dict[str, str] = field(default_factory=dict)
    needs: list[PhaseNeed] = field(default_factory=list)
    transitions: list[ReadTransition] = field(default_factory=list)
    transitions_broken: bool = False
    conditions: dict[str, ReadCondition] = field(default_factory=dict)
    condition_lines: dict[str, int] = field(default_factory=dict)
    broken_inputs: bool = False
    inputs: Mapping[str, Json] = field(default_factory=dict)
    folder: str = FOLDER
    built_in: bool = False
    shared_inputs: Mapping[str, Json] = field(default_factory=dict)
    checks: Collection[str] = ()
    values: Collection[str] = ()
    most_items: int = USUAL_ITEMS

    @property
    def names(self) -> list[str]:
        """The names of the phases."""
        return [phase.name for phase in self.phases]


def listed(top: Marked, key: str, most: int, problems: Problems) -> Sequence[Marked]:
    """Return at most `most` items of a list, and report it if it has more, or none."""
    found = top.take(key)
    if found is None:
        return ()
    if not found.items:
        problems.add(top.line_at([key]), f"{key!r} must be a list that is not empty, not {found.kind}")
    if len(found.items) > most:
        problems.add(found.items[most].line, f"there are {len(found.items)} {key}, at most {most} are allowed")
    return found.items[:most]


def file_beside(name: str, line: int, what: str, reading: AgentFileReading) -> tuple[str, bytes | None]:
    """Return the path and the bytes of a file beside the agent's own; no bytes if it can't be used, which is reported."""
    try:
        path = f"{reading.folder}/{clean_path(name)}"
    except InvalidPath as error:
        reading.problems.add(line, f"{what} cannot be the file {short(name)}: {error.reason}")
        return "", None
    reading.reads.add(path)
    raw = reading.files.get(path)
    if raw is None:
        suffix = name[name.rfind(".") :]
        known = [other.removeprefix(f"{reading.folder}/") for other in reading.files if other.endswith(suffix)]
        hint = meant(name, known, otherwise=f"; it is looked for at {path}")
        reading.problems.add(line, f"{what} names the file {short(name)}, which does not exist{hint}")
    elif len(raw) > MOST_BYTES:
        reading.problems.add(1, f"the file has {len(raw)} bytes, at most {MOST_BYTES} are read", path)
        raw = None
    return path, raw
