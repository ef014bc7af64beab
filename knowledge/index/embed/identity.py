"""What an index records of an embedder that a person chose: enough to know it again, and nothing that is secret. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

RECIPE = 1
"""Grows when we give the same text to a model in another way."""
_RECORDED = re.compile(
    r"(?P<kind>endpoint|fastembed):(?P<model>.+?)(?:@(?P<dimensions>\d+))?(?:\+(?P<prefixes>[0-9a-f]{8}))?"
    rf"/{RECIPE}",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What some models want before a question and before a passage, such as `query: ` and `passage: `."""

    question: str = ""
    passage: str = ""

    @property
    def digest(self) -> str:
        """Return eight characters that tell them from others; empty when there are none."""
        if not (self.question or self.passage):
            return ""
        # Lengths, so that no two pairs are written alike.
        text = f"{len(self.question)} {self.question}{self.passage}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class EmbedderName:
    """A model of `kind` `endpoint` or `fastembed`; `dimensions` as asked for, 0 for the model's own."""

    kind: str
    model: str
    dimensions: int = 0
    prefixes: str = ""
    """Their digest."""

    def __str__(self) -> str:
        """Return the name that is recorded."""
        length = f"@{self.dimensions}" if self.dimensions else ""
        prefixes = f"+{self.prefixes}" if self.prefixes else ""
        return f"{self.kind}:{self.model}{length}{prefixes}/{RECIPE}"


def parse(recorded: str) -> EmbedderName | None:
    """Return what `recorded` says; None if it is no such name, or one that another version of the program gave."""
    found = _RECORDED.fullmatch(recorded)
    if found is None:
        return None
    return EmbedderName(found["kind"], found["model"], int(found["dimensions"] or 0), found["prefixes"] or "")
