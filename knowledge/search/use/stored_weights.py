"""The ranking weights that a person stored for one knowledge base, in `ranking.json` in its state folder."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from knowledge.private_files import write_private
from knowledge.search.ranking.weights import DEFAULT_WEIGHTS, RankingWeights

log = logging.getLogger(__name__)

WEIGHTS_FILE = "ranking.json"
HIGHEST = 10.0
"""The highest weight that is accepted: a sign that counts ten times as much as all words drowns out the others."""
MOST_EARLIER = 20
_NAMES = tuple(one.name for one in fields(RankingWeights))


@dataclass(frozen=True, slots=True)
class WeightsRecord:
    """Weights, when and by whom they were stored, and why, in one sentence. `earlier` are those before, newest first."""

    weights: RankingWeights
    at: str
    by: str
    reason: str
    earlier: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


class StoredWeights:
    """Reads the weights with every search, so that a server uses new ones without a restart."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / WEIGHTS_FILE
        self._seen: tuple[int, int, int] | None = None
        self._weights = DEFAULT_WEIGHTS

    async def now(self) -> RankingWeights:
        """Return the weights that apply now; costs one `stat` while the file is unchanged."""
        try:
            found = os.stat(self._file)  # noqa: PTH116 - microseconds, on the local disk, with every search
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
        except OSError:
            self._seen, self._weights = None, DEFAULT_WEIGHTS
            return self._weights
        if seen != self._seen:
            record = stored_record(self._file.parent)
            self._seen, self._weights = seen, DEFAULT_WEIGHTS if record is None else record.weights
        return self._weights


def stored_record(folder: Path) -> WeightsRecord | None:
    """Return the stored weights; None if there are none, or the file cannot be read as such, which is logged."""
    file = folder / WEIGHTS_FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["weights"] is None:
            return None
        earlier = tuple(one for one in found.get("earlier", ()) if isinstance(one, Mapping))
        return WeightsRecord(
            _checked(found["weights"]), str(found["at"]), str(found["by"]), str(found["reason"]), earlier
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("%s is not used, and search uses the default weights: %s", file, error)
        return None


def store(folder: Path, record: WeightsRecord) -> None:
    """Store these weights; the ones before are kept in the file as `earlier`."""
    _write(folder, {"weights": asdict(record.weights), "at": record.at, "by": record.by, "reason": record.reason})


def reset(folder: Path, *, at: str, by: str) -> bool:
    """Return to the default weights; False if they already applied."""
    if stored_record(folder) is None:
        return False
    _write(folder, {"weights": None, "at": at, "by": by, "reason": "reset"})
    return True


def _write(folder: Path, values: Mapping[str, Any]) -> None:
    file, new = folder / WEIGHTS_FILE, folder / f"{WEIGHTS_FILE}.new"
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
        earlier = [{key: before[key] for key in ("weights", "at", "by", "reason")}, *before.get("earlier", ())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        earlier = []
    write_private(new, json.dumps({**values, "earlier": earlier[:MOST_EARLIER]}, indent=1, ensure_ascii=False) + "\n")
    # Replaced atomically: a server that reads at the same time sees the old file or the new one.
    new.replace(file)


def _checked(found: Mapping[str, Any]) -> RankingWeights:
    """Return the weights in `found`; a weight that is missing has its default.

    Raises:
        ValueError: one is not a number from 0 to `HIGHEST`.
    """
    values = {name: found[name] for name in _NAMES if name in found}
    for name, value in values.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value <= HIGHEST
            or math.isnan(value)
        ):
            raise ValueError(f"the weight {name} is {value!r}, which is not a number from 0 to {HIGHEST:.0f}")
    return RankingWeights(**{name: float(value) for name, value in values.items()})
