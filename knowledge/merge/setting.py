"""The data, besides its texts, that a merge depends on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.evidence.confidence import Rules
from knowledge.merge.evidence.place.placement import Similarity
from knowledge.merge.model import Dismissal, Origin


@dataclass(frozen=True, slots=True)
class MergeSetting:
    """Everything a merge depends on besides its texts.

    `origins` belong to the units of the current text, None where an origin is not known; `revision` is that of the
    current text, None for a new page; `by` is the principal. `append` says that the page is a log. `dismissals` are
    contradictions that a person dismissed, by the digest of the two statements (`pair_digest`).
    """

    page: PageFacts
    origins: Sequence[Origin | None]
    rules: Rules
    now: datetime
    revision: str | None
    by: str
    append: bool = False
    similarity: Similarity | None = None
    dismissals: Mapping[bytes, Dismissal] = field(default_factory=dict)
