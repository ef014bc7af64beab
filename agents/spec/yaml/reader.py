"""What is known of a team's agent while its file is read, and the files beside it. Pure."""

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
    """A template, and where its lines stand."""

    text: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ReadTransition:
    """A transition as it was read."""

    transition: Transition
    line: int
    condition_line: int


@dataclass(frozen=True, slots=True)
class Needing:
    """What a phase says that is of use only where a person is asked in one of these ways, when it leads on."""

    phase: str
    kinds: tuple[CheckpointKind, ...]
    line: int
    text: str
    asks: bool = False


class AnyTool(Collection[str]):
    """A collection that contains every name. Tests prove that the tools named by this program's own agents exist."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass
class AgentFileReading:
    """What is known of the agent while its file is read. Files beside it are looked for in `folder`.

    `built_in`: it belongs to this program. Such a file may name `models` and automatic phases, and may have code beside it:
    `checks` are the names of its conditions, `values` those of the placeholders that it fills in itself. `shared_inputs` are inputs
    that it takes together with others; `most_items` is the default limit of a list.
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
    needing: list[Needing] = field(default_factory=list)
    ways: list[ReadTransition] = field(default_factory=list)
    ways_broken: bool = False
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
        """Return the names of the phases."""
        return [phase.name for phase in self.phases]


def listed(top: Marked, key: str, most: int, problems: Problems) -> Sequence[Marked]:
    """Return at most `most` items of a list, and note if it has more, or none."""
    found = top.take(key)
    if found is None:
        return ()
    if not found.items:
        problems.add(top.line_at([key]), f"{key!r} must be a list that is not empty, not {found.kind}")
    if len(found.items) > most:
        problems.add(found.items[most].line, f"there are {len(found.items)} {key}, at most {most} are allowed")
    return found.items[:most]


def beside(asked: str, line: int, what: str, reading: AgentFileReading) -> tuple[str, bytes | None]:
    """Return the path and the bytes of a file beside the agent's own."""
    try:
        path = f"{reading.folder}/{clean_path(asked)}"
    except InvalidPath as error:
        reading.problems.add(line, f"{what} cannot be the file {short(asked)}: {error.reason}")
        return "", None
    reading.reads.add(path)
    raw = reading.files.get(path)
    if raw is None:
        suffix = asked[asked.rfind(".") :]
        known = [other.removeprefix(f"{reading.folder}/") for other in reading.files if other.endswith(suffix)]
        near = meant(asked, known)
        hint = near if "did you mean" in near else f"; it is looked for at {path}"
        reading.problems.add(line, f"{what} names the file {short(asked)}, which is not there{hint}")
    elif len(raw) > MOST_BYTES:
        reading.problems.add(1, f"the file has {len(raw)} bytes, at most {MOST_BYTES} are read", path)
        raw = None
    return path, raw
