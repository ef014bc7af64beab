"""The port to the tools that a run calls. Each call passes the gate as a call of the run's principal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.engine.events import Json
from agents.loop.model.ports import ToolDefinition


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call. `text` is the result for the model, also after a refusal or failure (then `success` is false).

    `proposal`: nothing was done yet, a person decides about the proposal with that id. `asks`: nothing was done; a person has to
    answer that question first, then the model calls the tool again. `unsure`: it is unknown whether it was done, and `text` says so.
    `called` is false if the tool was never called.
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
        """Return the tools that the model may call now, in a fixed order, each name once."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Json], key: str) -> CallOutcome:
        """Carry out the call once, under that key, and return its outcome; wrong arguments and refusals are outcomes, too.

        Raises:
            KnowledgeError: it failed; the model gets the error's sentence.
        """
        ...

    async def recalled(self, name: str, key: str) -> CallOutcome | None:
        """Return the outcome of the call with that key, which was on record when its process died; None if nobody can tell.

        This carries out nothing.
        """
        ...
