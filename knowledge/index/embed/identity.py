"""The names that an index records for configurable embedders: enough to recognise one, and nothing secret. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

KINDS = ("onnx", "fastembed", "endpoint")
"""Kinds of embedders that take a model: `FORGE_EMBEDDER=fastembed:MODEL`."""
RECIPE = 1
"""Raise it when texts are passed to models in a different way, so that stored vectors are made again."""
_RECORDED = re.compile(
    rf"(?P<kind>{'|'.join(KINDS)}):"
    r"(?P<model>.+?)(?:@(?P<dimensions>\d+))?(?:\+(?P<prefixes>[0-9a-f]{8}))?"
    rf"/{RECIPE}",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes that some models expect before a question and a passage, such as `query: ` and `passage: `."""

    question: str = ""
    passage: str = ""

    @property
    def digest(self) -> str:
        """Eight characters that identify them, or an empty string without prefixes."""
        if not (self.question or self.passage):
            return ""
        # With the length, so that no two pairs give the same text.
        text = f"{len(self.question)} {self.question}{self.passage}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


NO_PREFIXES = Prefixes()

_MULTILINGUAL = re.compile(
    r"multilingual|\bbge-m3\b|\blabse\b|arctic-embed-\w+-v2|nomic-embed-text-v2|jina-embeddings-v[345]|"
    r"\bqwen3-embedding|\bembeddinggemma|\btext-embedding-3-|\bembed-v4|\bgemini-embedding"
)
"""Published models whose documentation says that they were trained to find across languages."""

_LANGUAGE = re.compile("English|Chinese|German|Spanish|[Mm]ultilingual")
"""The languages that occur in the descriptions of fastembed's list."""


def known_multilingual(model: str) -> bool:
    """Return whether the model of that name is known to find across languages."""
    return _MULTILINGUAL.search(model.casefold()) is not None


def languages_in(description: str) -> list[str]:
    """Return the parts of one of fastembed's descriptions that name languages."""
    return [part.strip() for part in description.split(",") if _LANGUAGE.search(part)]


def finds_across(model: str, description: str) -> bool:
    """Return whether fastembed's description of a model, or the model's name, says that it finds across languages."""
    named = set(_LANGUAGE.findall(" ".join(languages_in(description))))
    return len(named) > 1 or "ultilingual" in "".join(named) or known_multilingual(model)


@dataclass(frozen=True, slots=True)
class EmbedderName:
    """A model of one of `KINDS`. `dimensions` is the requested length, 0 for the model's own.

    The model of the kind `onnx` is `PATH#DIGEST`: other files at the same place are another model.
    """

    kind: str
    model: str
    dimensions: int = 0
    prefixes: str = ""
    """The digest of its prefixes."""

    def __str__(self) -> str:
        """Return the recorded name."""
        length = f"@{self.dimensions}" if self.dimensions else ""
        prefixes = f"+{self.prefixes}" if self.prefixes else ""
        return f"{self.kind}:{self.model}{length}{prefixes}/{RECIPE}"


def parse(recorded: str) -> EmbedderName | None:
    """Return the parts of a recorded name; None if it has another form, such as one of another version."""
    found = _RECORDED.fullmatch(recorded)
    if found is None:
        return None
    return EmbedderName(found["kind"], found["model"], int(found["dimensions"] or 0), found["prefixes"] or "")
