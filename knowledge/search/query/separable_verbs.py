"""German verbs whose first part stands at the end of a question: *Wie lade ich eine Datei hoch?* asks for *hochladen*. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.pages.markdown.language import QUESTION_WORDS, STOP_WORDS

GERMAN: Final = "de"
FEWEST_WORDS: Final = 3
_WRITTEN: Final = (
    "ab an auf aus bei durch ein empor fest fort frei heraus herbei herein herunter hervor hin hinein hinweg hinzu hoch los mit nach "
    "nieder runter um vor voran voraus vorbei weg weiter wieder zu zurecht zurück zusammen"
)
_PREFIXES: Final = frozenset(_WRITTEN.split())
_ASKING: Final = STOP_WORDS[GERMAN] | QUESTION_WORDS[GERMAN]
OTHER_FORMS: Final = 0.8
"""The weight of a participle (*hochgeladen*) and of an infinitive with *zu* (*hochzuladen*)."""


@dataclass(frozen=True, slots=True)
class SeparatedVerb:
    """A verb as it stands in a question, its first part, and the forms that a page may have, with their weights."""

    verb: str
    prefix: str
    forms: tuple[tuple[str, float], ...]


def separated_verb(words: Sequence[str]) -> SeparatedVerb | None:
    """Return the verb of a German question that ends in the verb's first part; None if it has none.

    `words` are those of the question in order, case-folded. The verb is the first word that does not only ask.
    """
    if len(words) < FEWEST_WORDS or words[-1] not in _PREFIXES:
        return None
    verb = next((word for word in words[:-1] if word not in _ASKING), "")
    if not verb.isalpha():
        return None
    prefix = words[-1]
    others = ((f"{prefix}ge{verb}", OTHER_FORMS), (f"{prefix}zu{verb}", OTHER_FORMS))
    return SeparatedVerb(verb, prefix, ((f"{prefix}{verb}", 1.0), *others))
