"""The confidence in a claim, and the rules that a directory sets for it. Pure.

kb/concepts/confidence.md explains the formula and what a lineage is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from knowledge.merge.model import Confidence, IncomingEvidence, Origin
from knowledge.pages.claim_source import AUTHORITY, UNKNOWN_AUTHORITY, source_kind
from knowledge.pages.paths import without_suffix

REMEMBERED = 4_096
"""Sources whose lineages are kept, because most texts of a page share a few."""

UNKNOWN = "unknown"
"""The source of text of unknown origin."""
USER = "user"
INHERITING = frozenset({"kb", "journey"})
"""Kinds of sources that repeat other sources: a claim from them has the authority of the page that it comes from, which the server
looks up (`knowledge.writing.evidence.citation_check`)."""
HALF_LIFE_DAYS = 180.0
LONGEST_HALF_LIFE_DAYS = 36_500.0
ENOUGH_SOURCES = 2
DECIMALS = 6
"""Confidence is rounded, so that rounding errors do not decide between equal claims: a tie goes to the newer one."""

_LAST_NUMBER = re.compile(r"/(?:near/)?\d+$")
_REVISION = re.compile(r"@[^/@]*$")
_LINES = re.compile(r":L?\d+(?:[-:]L?\d+)*$")


class Weights(NamedTuple):
    """The weight of each part of a confidence; they add up to 1."""

    recency: float = 0.4
    authority: float = 0.4
    corroboration: float = 0.2


DEFAULT_WEIGHTS = Weights()


@dataclass(frozen=True, slots=True)
class Rules:
    """How a directory weighs claims. `authority` maps kinds of sources to 0..1; `AUTHORITY` applies to the other kinds."""

    weights: Weights = DEFAULT_WEIGHTS
    half_life_days: float = HALF_LIFE_DAYS
    authority: Mapping[str, float] | None = None

    def authority_of(self, source: str) -> float:
        """Return the authority, 0..1, that `source` has here."""
        kind = source_kind(source)
        own = self.authority or {}
        if kind in own:
            return own[kind]
        return AUTHORITY.get(kind, own.get(UNKNOWN, UNKNOWN_AUTHORITY))


DEFAULT_RULES = Rules()


def confidence(
    source: str,
    observed_at: datetime | None,
    *,
    now: datetime,
    rules: Rules = DEFAULT_RULES,
    authority: float | None = None,
    corroborated_by: Iterable[str] = (),
) -> Confidence:
    """Return the confidence at `now` of a claim of `source` that was observed at `observed_at`.

    `authority` is what the caller claims, and can only lower what the rules give. For a source whose kind is in
    `INHERITING`, it is the authority that the server has looked up, which no caller can raise. `corroborated_by` are
    lineages that the server has verified. An unknown time counts as long ago.
    """
    recency = 0.0
    if observed_at is not None:
        days = (_aware(now) - _aware(observed_at)).total_seconds() / 86_400
        recency = 1.0 if days <= 0 else float(0.5 ** (days / rules.half_life_days))
    kind = source_kind(source)
    inherits = kind in INHERITING and kind not in (rules.authority or {}) and authority is not None
    allowed = 1.0 if inherits else rules.authority_of(source)
    # A claimed authority that is not a number counts as 0.
    given = allowed if authority is None else 0.0 if math.isnan(authority) else min(allowed, max(0.0, authority))
    support = min(len(independent(source, corroborated_by)), ENOUGH_SOURCES) / ENOUGH_SOURCES
    weights = rules.weights
    total = weights.recency * recency + weights.authority * given + weights.corroboration * support
    return Confidence(round(min(1.0, total), DECIMALS), recency, given, support)


def confidence_in(claim: IncomingEvidence | Origin, *, now: datetime, rules: Rules = DEFAULT_RULES) -> Confidence:
    """Return the confidence at `now` of evidence, or of a unit of a page with that origin."""
    return confidence(
        claim.source,
        claim.observed_at,
        now=now,
        rules=rules,
        authority=claim.authority,
        corroborated_by=claim.corroborated_by,
    )


def independent(source: str, lineages: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct lineages among `lineages` that are neither unknown nor the claim's own, in order."""
    own = lineage_of(source)
    found = dict.fromkeys(map(lineage_of, lineages))
    return tuple(lineage for lineage in found if lineage not in (own, UNKNOWN))


def same_lineage(one: str, other: str) -> bool:
    """Return whether both sources have the same lineage. Two unknown sources never do."""
    lineage = lineage_of(one)
    return lineage != UNKNOWN and lineage == lineage_of(other)


@lru_cache(REMEMBERED)
def lineage_of(source: str) -> str:
    """Return the lineage of a source: the source without its revision, message number, line or section.

    `zulip:design/merge/4711` is `zulip:design/merge`, `code:src/limits.py@4f2a` is `code:src/limits.py`,
    `kb:guides/trust#levels` is `kb:guides/trust`, `plane:PROJ-12` stays. Every user is the one lineage `user`.
    """
    # Cut until nothing is left to cut, so that a lineage is its own lineage: `code:a.py@x:12` has two ends.
    while (lineage := _cut(source)) != source:
        source = lineage
    return lineage


def _cut(source: str) -> str:
    kind, locator = source_kind(source), " ".join(source.partition(":")[2].split())
    if kind in ("", UNKNOWN):
        return UNKNOWN
    if kind == USER or not locator:
        return kind
    if kind == "url":
        lasting = _lasting_url(locator)
    elif kind == "zulip":
        # A topic may hold `#` and `@`; case does not tell channels or topics apart.
        lasting = (_LAST_NUMBER.sub("", locator) or locator).lstrip("#").casefold()
    elif kind == "maintainer":
        lasting = locator.casefold()
    else:
        lasting = _lasting_place(kind, locator)
    return f"{kind}:{lasting.strip()}" if lasting.strip() else kind


def _lasting_url(locator: str) -> str:
    try:
        parts = urlsplit(locator)
    except ValueError:
        # Invalid addresses, such as `http://[`.
        return locator
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/"), parts.query, ""))


def _lasting_place(kind: str, locator: str) -> str:
    lasting = locator.partition("#")[0] or locator
    if kind == "code":
        # Lines may be named before the revision or after it.
        lasting = _LINES.sub("", lasting)
        return _LINES.sub("", _REVISION.sub("", lasting) or lasting)
    lasting = _REVISION.sub("", lasting) or lasting
    if kind == "plane":
        return lasting.upper()
    return without_suffix(lasting.strip("/")) if kind == "kb" else lasting


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def rules_of(front_matters: Sequence[Mapping[str, object]]) -> tuple[Rules, tuple[str, ...]]:
    """Return the rules set by these front matters, given nearest `_index.md` first, and the problems found in them.

    The nearest wins, key by key. An invalid value is ignored; weights that do not add up to 1 are scaled until they do.
    Each of the problems is a sentence about one such case.
    """
    rules, problems = DEFAULT_RULES, list[str]()
    for metadata in reversed(front_matters):
        wanted = metadata.get("merge")
        if isinstance(wanted, Mapping):
            rules = _changed_rules(rules, wanted, problems)
        elif wanted is not None:
            problems.append(
                f"`merge` is `{_shown(wanted)}`, not a mapping with weights, half_life_days or authority; ignored"
            )
    return rules, tuple(problems)


def _changed_rules(rules: Rules, wanted: Mapping[object, object], problems: list[str]) -> Rules:
    problems += [
        f"`merge.{_shown(key)}` is not a known key; the keys are weights, half_life_days and authority"
        for key in wanted
        if key not in ("weights", "half_life_days", "authority")
    ]
    if "weights" in wanted:
        rules = replace(rules, weights=_weights(rules.weights, wanted["weights"], problems))
    if "half_life_days" in wanted:
        days = _number(wanted["half_life_days"])
        if days is not None and 0 < days <= LONGEST_HALF_LIFE_DAYS:
            rules = replace(rules, half_life_days=days)
        else:
            problems.append(
                f"`merge.half_life_days` is `{_shown(wanted['half_life_days'])}`, not a number of days above 0 and up to "
                f"{LONGEST_HALF_LIFE_DAYS:.0f}; {rules.half_life_days:g} is used"
            )
    if "authority" in wanted:
        rules = replace(rules, authority={**(rules.authority or {}), **_authorities(wanted["authority"], problems)})
    return rules


def _weights(before: Weights, wanted: object, problems: list[str]) -> Weights:
    """Return the weights with the given changes; none is made if one of them is not a valid weight."""
    if not isinstance(wanted, Mapping):
        problems.append(f"`merge.weights` is `{_shown(wanted)}`, not a mapping; ignored")
        return before
    named: dict[str, float] = {}
    for key, value in wanted.items():
        number = _number(value)
        if key not in Weights._fields or number is None or number < 0:
            problems.append(
                f"`merge.weights.{_shown(key)}: {_shown(value)}` is not a weight, a number from 0 up for "
                f"{', '.join(Weights._fields)}; these weights are ignored"
            )
            return before
        named[str(key)] = number
    parts = [named.get(field, getattr(before, field)) for field in Weights._fields]
    total = math.fsum(parts)
    if not 0 < total < math.inf:
        problems.append("`merge.weights` are all 0; ignored")
        return before
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        problems.append(f"`merge.weights` add up to {total:g}; scaled so that they add up to 1")
        parts = [part / total for part in parts]
    return Weights(*parts)


def _authorities(wanted: object, problems: list[str]) -> dict[str, float]:
    if not isinstance(wanted, Mapping):
        problems.append(f"`merge.authority` is `{_shown(wanted)}`, not a mapping from kinds to numbers; ignored")
        return {}
    found: dict[str, float] = {}
    for key, value in wanted.items():
        number = _number(value)
        if number is None or not 0 <= number <= 1:
            problems.append(f"`merge.authority.{_shown(key)}` is `{_shown(value)}`, not a number from 0 to 1; ignored")
        else:
            found[str(key).strip().lower()] = number
    return found


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        # An integer of several hundred digits.
        return None
    return number if math.isfinite(number) else None


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else text[:37] + "..."
