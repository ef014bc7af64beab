"""A page with every kind of text, and the plans for evidence that is sent to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import DEFAULT_RULES, Rules
from knowledge.merge.evidence.merge import weigh
from knowledge.merge.evidence.place.placement import Similarity
from knowledge.merge.model import IncomingEvidence, MergePlan, Origin, StatementAnswer, unit_digest
from knowledge.merge.setting import MergeSetting

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=360)
CODE = "code:src/limits.py@4f2a"
CHAT = "zulip:ops/limits/1"
PAGE = """\
---
title: Uploads
tags: [storage, limits]
---

# Uploads

Uploads go to the object store in eu-west. Every file is checked for viruses.

## Limits

- An upload may be 32 MiB at most.
- Retries: 3
- A person may upload 100 files a day.

## Plans

| plan | quota | price |
|---|---|---|
| free | 1 GB | |
| team | 50 GB | 10 EUR |

## Setup

Run this first:

```sh
forge init
forge serve
```

Then open the page in a browser.

## See also

- [Other](other.md)

[docs]: https://example.org
"""


def weighed(
    content: str,
    source: str = CODE,
    page: str = PAGE,
    *,
    held_by: str = CHAT,
    held_since: datetime = LONG_AGO,
    observed_at: datetime = NOW,
    verified: Sequence[str] = (),
    authority: float | None = None,
    section: str | None = None,
    append: bool = False,
    origins: Sequence[Origin | None] | None = None,
    rules: Rules = DEFAULT_RULES,
    similarity: Similarity | None = None,
    answers: tuple[StatementAnswer, ...] = (),
) -> MergePlan:
    """Return the plan for `content` against a page all of whose units come from `held_by`."""
    document = cut(page)
    if origins is None:
        origins = [
            Origin(unit_digest(unit.text), unit.section, held_by, 1.0, held_since, "r0") for unit in units(document)
        ]
    return weigh(
        document,
        cut(content),
        IncomingEvidence(source, observed_at, authority, tuple(verified), answers=answers),
        MergeSetting(
            PageFacts("guides/uploads.md", "user", NOW, tracked=True), origins, rules, NOW, "r1", "", append, similarity
        ),
        section=section,
    )


def words(plan: MergePlan) -> list[str]:
    return [verdict.verdict for verdict in plan.verdicts]


def added(plan: MergePlan, page: str = PAGE) -> list[str]:
    """Return the lines that the plan adds, without blank ones; none of the page may be gone."""
    lines = iter(plan.text.split("\n"))
    found: list[str] = []
    for line in page.split("\n"):
        for now in lines:
            if now == line:
                break
            found.append(now)
        else:
            raise AssertionError(f"the page lost {line!r}")
    return [line for line in (*found, *lines) if line.strip()]
