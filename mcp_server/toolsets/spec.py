"""The declaration of a tool. One declaration feeds the tool list, the schemas, the gate and the reference table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from knowledge.errors import KnowledgeError
from knowledge.state.quota.bounds import Kind
from knowledge.wire.lean_schema import lean_input, lean_output
from mcp_server.fair_use.limits import Lane
from mcp_server.gate.caller import Call
from mcp_server.gate.canonical_json import canonical
from mcp_server.gate.policy import Trust
from mcp_server.late_module import LateName
from mcp_server.protocol.wire_errors import explain, loosen


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown ones are refused, and `"5"` is not 5."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BadArguments(Exception):
    """The arguments do not fit; the message names each wrong one and never repeats a value at length."""


class BadDeclaration(Exception):
    """A tool's declaration is incomplete; the server must not start with it."""


LAST_EXACT = 2**53 - 1
"""Beyond this, JSON parsers read a number differently. Source: RFC 7493, section 2.2."""
InJourney = Annotated[str | None, Field(description="The call's journey, if any.")]
"""The journey that a call belongs to: its phase says whether the tool may be used, and the call is recorded there."""
Cursor = Annotated[str | None, Field(description="next_cursor of the previous answer.")]
ActStatus = Literal["done", "unchanged", "conflict", "analysis", "proposed", "unsure"]
"""The status of an act in another service. `unsure`: sent, and nobody can tell whether it happened; it is never simply sent again."""
DryRun = Annotated[bool, Field(description="Only show the result.")]
JOURNEY_FIELD = "journey_id"
JOURNEYS = "journeys"
"""The toolset of the journey tools. Their `journey_id` is what the call is about, not the journey that it belongs to."""

S_contra = TypeVar("S_contra", contravariant=True)
A = TypeVar("A", bound=Arguments)
R = TypeVar("R")


class CallsDoNotJoin(KnowledgeError):
    """Several calls of one caller that cannot be done as one."""


@dataclass(frozen=True, slots=True)
class CallPreview:
    """The effect of a plan, as a person sees it before deciding.

    Attributes:
        answer: What the call would return.
        sentence: The act in one line.
        effect: A hash that stays the same as long as the same would happen; "" if nothing would change.
        documents: What the call is about. A newer proposal of the same caller for one of them replaces this one.
        files: The files that change: `path`, `moved_from`, `before`, `after`, `diff`.
        revisions: The revisions of all files that the plan was made from.
        doubts: A language model's doubts about the call's new text.
        repeats: Digests of sentences from untrusted text that the call repeats, each with its source.
    """

    answer: Any
    sentence: str
    effect: str
    documents: tuple[str, ...]
    files: Sequence[Mapping[str, Any]] = ()
    revisions: Mapping[str, str | None] = field(default_factory=dict)
    doubts: Sequence[Mapping[str, Any]] = ()
    repeats: Sequence[tuple[bytes, str]] = ()

    @property
    def changes_nothing(self) -> bool:
        """Whether there is nothing to approve."""
        return not self.effect


async def _never(_call: Call) -> Any:
    raise TypeError("a plan with an answer is not executed")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlan(Generic[R]):
    """The effect that a call would have, worked out before a decision on it. Nothing has changed yet.

    Attributes:
        execute: Does exactly what was planned, also later and outside of a request. The call that it gets says who asked, and what a
            person approved. If something else would happen by then, it raises `EffectChanged`.
        preview: The effect as a person sees it. None with an `answer`, or if the caller is trusted enough to need none. May be
            None after an approval.
        answer: The answer of a call with nothing to decide on, such as a dry run. Every caller that may read gets it.
        level: The level that this plan needs, if that is more than its tool usually needs.
        only_by_person: Why a person has to decide, whatever level the caller holds; else "".
        origins: The untrusted sources that the answer or the preview quotes.
        destination: Where something is sent that leaves the machine, like `zulip:design`.
        teaches: It writes what agents receive before they begin. After reading unverified text it needs one level more, as acts that
            leave the machine do.
        unsettled: Plans what an answer left for a person to decide. Returns that plan, and the texts that it would replace.
        note: Records what the plan found out, for a caller who may not execute it.
        writes: The pages that the call is about: it changes them, makes them, or asks a person about them. Rights are checked on them.
        also: Other pages that it changes too, such as those with links to a page that moves.
    """

    execute: Callable[[Call], Awaitable[R]] = _never
    preview: CallPreview | None = None
    answer: R | None = None
    level: Trust = Trust.NONE
    only_by_person: str = ""
    origins: tuple[str, ...] = ()
    destination: str = ""
    teaches: bool = False
    unsettled: Callable[[Call, R], Awaitable[tuple[CallPlan[R], tuple[str, ...]] | None]] | None = None
    note: Callable[[], Awaitable[None]] | None = None
    writes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolSpec(Generic[S_contra, A, R]):
    """A tool as declared.

    `S_contra` is the protocol of what its functions use of the server (see `mcp_server/ports.py`). A tool of level 0 or
    1 changes nothing and has `answer`. A tool of level 2 or higher has `plan`, and the gate decides before the plan is
    executed. Its answers have a `status` and a `proposal`; a `revision` in them is that of the page at `path`.

    Attributes:
        result: The type of the answer, a dataclass.
        result_notes: Descriptions of result fields that their names do not explain; `hits.score` is a field of each item of `hits`.
        only_on_request: Result fields that are left out when they are null, because only some calls request them.
        taints: Returns the untrusted sources that an answer to a call quotes.
        recalled: Returns the answer to a call whose process died, found by asking the service. `call.approval` or `call.key`
            identifies it; its status is `done` or `unsure`. None if the effect of the call is not there and the call
            can be made again without doing it twice.
        joins: Several calls of one caller can be planned as one (`call.earlier`).
        leads: The tool works through other calls that pass the gate themselves, so what its caller has read counts there, not here.
        searches: A call is heavy work although it changes nothing. It counts towards FORGE_LIMIT_HEAVY, as changes of pages do.
        waits: A call may wait for a person, so it takes no turn.
    """

    name: str
    title: str
    level: Trust | None
    toolset: str
    description: str
    arguments: type[A]
    result: type[R]
    result_notes: Mapping[str, str] = field(default_factory=dict)
    only_on_request: tuple[str, ...] = ()
    answer: Callable[[S_contra, Call, A], Awaitable[R]] | None = None
    taints: Callable[[S_contra, Call, R], Awaitable[Sequence[str]]] | None = None
    plan: Callable[[S_contra, Call, A], Awaitable[CallPlan[R]]] | None = None
    recalled: Callable[[S_contra, Call, A], Awaitable[R | None]] | None = None
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    joins: bool = False
    leads: bool = False
    searches: bool = False
    waits: bool = False

    def check(self) -> None:
        """Check that the declaration is complete.

        Raises:
            BadDeclaration: no level, no description, or the wrong functions for its level.
        """
        if self.level is None:
            raise BadDeclaration(f"tool {self.name} declares no trust level; every tool needs one")
        if not self.title or not self.description:
            raise BadDeclaration(f"tool {self.name} needs a title and a description")
        if self.level >= Trust.PROPOSE and (self.plan is None or self.answer is not None):
            raise BadDeclaration(f"tool {self.name} has level {int(self.level)} and needs plan, not answer")
        if self.level >= Trust.PROPOSE and not {"status", "proposal"} <= set(self.output_schema["properties"]):
            raise BadDeclaration(f"tool {self.name} may be proposed: its answer needs `status` and `proposal`")
        if self.level < Trust.PROPOSE and (self.answer is None or self.plan is not None):
            raise BadDeclaration(f"tool {self.name} has level {int(self.level)} and needs answer, not plan")
        if self.level >= Trust.PROPOSE and self.read_only:
            raise BadDeclaration(f"tool {self.name} cannot be read-only at level {int(self.level)}")

    @property
    def needs(self) -> Trust:
        """The level that a call usually needs; a spec without one does not pass `check`."""
        if self.level is None:
            raise BadDeclaration(f"tool {self.name} declares no trust level")
        return self.level

    @property
    def lane(self) -> Lane:
        """The lane in which its calls take turns.

        A call that waits for a service or a person takes none: it would hold its turn for nothing.
        """
        if self.open_world or self.waits:
            return "none"
        return "change" if self.needs >= Trust.PROPOSE else "read"

    @property
    def counts_as(self) -> tuple[Kind, ...]:
        """The limits that a call counts towards."""
        return ("called", "worked") if self.searches or self.lane == "change" else ("called",)

    def journey_of(self, arguments: A) -> str:
        """Return the journey that the call belongs to, "" for none."""
        return "" if self.toolset == JOURNEYS else getattr(arguments, JOURNEY_FIELD, None) or ""

    def level_for(self, plan: CallPlan[R]) -> Trust:
        """Return the level that this plan needs: the tool's, or more."""
        return max(self.needs, plan.level)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, lean."""
        return self._stored("input", self.arguments) or self.made_schemas()["input"]

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the result, lean."""
        return self._stored("output", self.result) or self.made_schemas()["output"]

    def _stored(self, side: str, declared: object) -> dict[str, Any] | None:
        # Making all schemas takes as long as loading the rest of the server, so those of our own tools come with the program.
        return stored_schemas().get(self.name, {}).get(side) if isinstance(declared, LateName) else None

    def made_schemas(self) -> dict[str, dict[str, Any]]:
        """Make both schemas from the classes: `input` and `output`."""
        output = lean_output(self._adapter.json_schema(mode="serialization"))
        for name, note in self.result_notes.items():
            node = output
            for part in name.split("."):
                node = node.get("items", node)["properties"][part]
            node["description"] = note
        return {"input": lean_input(self.argument_model.model_json_schema()), "output": output}

    @cached_property
    def argument_model(self) -> type[A]:
        """The pydantic model of the arguments."""
        return self.arguments.load() if isinstance(self.arguments, LateName) else self.arguments

    @cached_property
    def _adapter(self) -> TypeAdapter[R]:
        return TypeAdapter(self.result.load() if isinstance(self.result, LateName) else self.result)

    def parse(self, arguments: dict[str, Any]) -> A:
        """Return the arguments, checked.

        Raises:
            BadArguments: with one sentence for each that is missing, unknown or wrong.
        """
        try:
            checked = self.argument_model.model_validate(loosen(arguments, self.input_schema))
        except ValidationError as error:
            raise BadArguments(explain(self.name, error, self.input_schema)) from None
        if inexact := [name for name, value in checked if isinstance(value, int) and abs(value) > LAST_EXACT]:
            raise BadArguments(f"{self.name}: {inexact[0]!r} must lie within {-LAST_EXACT} and {LAST_EXACT}")
        return checked

    @staticmethod
    def hash_of(arguments: Arguments) -> str:
        """Return the SHA-256, hexadecimal, of the arguments in canonical form, defaults filled in."""
        return hashlib.sha256(canonical(arguments.model_dump(mode="json"))).hexdigest()

    @cached_property
    def definition_hash(self) -> str:
        """A hash over everything that callers see of the tool, and its level."""
        seen = [self.name, self.description, self.input_schema, self.output_schema, int(self.needs)]
        return hashlib.sha256(canonical(seen)).hexdigest()

    def as_json(self, result: R) -> dict[str, Any]:
        """Return `result` as plain JSON, nulls kept except those of `only_on_request`."""
        dumped: dict[str, Any] = self._adapter.dump_python(result, mode="json")
        return {name: value for name, value in dumped.items() if value is not None or name not in self.only_on_request}


AnySpec = ToolSpec[Any, Any, Any]

SCHEMAS_FILE = Path(__file__).with_name("schemas.json")


@cache
def stored_schemas() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the schemas of this program's tools by name, each with `input` and `output`.

    `python -m tests.bench generated` writes the file, and a test compares it with the classes.
    """
    stored: dict[str, Any] = json.loads(SCHEMAS_FILE.read_bytes())
    return stored
