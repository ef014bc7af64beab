"""What a run wants from the tools that it calls. Each call passes the gate as that of the principal whose run it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.engine.events import Json
from agents.loop.model.ports import ToolDefinition


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What came of a call. `text` is what the model is told, also where it was refused or failed (then `success` is false).

    `proposal`: it was not done, a person decides about the proposal with that id. `asks`: it was not done before a person answers that
    question; the model calls it again then. `unsure`: nobody knows whether it was done, and `text` says so. `called` is false where
    the tool was never called.
    """

    success: bool
    text: str
    structured: Json = None
    proposal: str = ""
    asks: str = ""
    unsure: bool = False
    called: bool = True


class Tools(Protocol):
    """The tools of one run."""

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return what the model may call now, in a fixed order, each name once."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Json], key: str) -> CallOutcome:
        """Carry the call out under that key, once, and return what came of it: wrong arguments and refusals are outcomes, too.

        Raises:
            KnowledgeError: it failed, and what it says is told to the model.
        """
        ...

    async def recalled(self, name: str, key: str) -> CallOutcome | None:
        """Return what came of the call with that key, which a process had on record when it died; None where nobody can tell.

        Nothing is carried out by asking.
        """
        ...
