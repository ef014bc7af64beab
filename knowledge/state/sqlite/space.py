"""What takes the space of a state database in SQLite, and giving back what is free."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

import apsw

from knowledge.errors import DatabaseUnavailable, size_in_words
from knowledge.state.ports import Held, StateSize
from knowledge.state.sqlite.database import Database

# The length of a text is in the head of its row: what is long is not read.
KINDS: dict[str, str] = {
    "proposals": """
        SELECT principal, count(*), sum(octet_length(told) + ifnull(octet_length(result), 0)) FROM proposal GROUP BY principal
    """,
    "journeys": """
        SELECT principal, count(*), sum(octet_length(folded) + ifnull((
            SELECT sum(octet_length(body)) FROM journey_event e WHERE e.journey = journey.number
        ), 0)) FROM journey GROUP BY principal
    """,
    "runs": """
        SELECT principal, count(*), sum(octet_length(header) + ifnull((
            SELECT sum(octet_length(body)) FROM run_frame f WHERE f.run = run.number
        ), 0)) FROM run GROUP BY principal
    """,
    "errands": "SELECT principal, count(*), sum(octet_length(marks) + ifnull(octet_length(result), 0)) FROM errand GROUP BY principal",
    "revisions of pages": "SELECT NULL, count(*), sum(octet_length(packed)) FROM content",
    "origins of pages": "SELECT NULL, count(*), sum(octet_length(packed)) FROM origin",
    "contradictions": "SELECT NULL, count(*), sum(octet_length(told)) FROM contradiction",
    "audit records": "SELECT NULL, count(*), sum(octet_length(body)) FROM audit",
    "map lines": "SELECT NULL, count(*), sum(octet_length(key) + octet_length(text)) FROM map_line",
    "what was read": """
        SELECT principal, count(*), sum(octet_length(path) + 60) FROM look GROUP BY principal
    """,
    "sentences of others": """
        SELECT principal, count(*), sum(octet_length(digest) + octet_length(origin) + 60) FROM read_passage GROUP BY principal
    """,
    "change events": "SELECT NULL, count(*), sum(octet_length(key) + 30) FROM event",
}
STEP_PAGES = 500
"""Free pages given back in one transaction: about 2 MB, for which writers wait a few milliseconds."""
LARGE_TEMPORARY = "/var/tmp"  # noqa: S108 - where SQLite writes the copy, unless told otherwise
SPARE_SHARE = 20
"""One page in so many stays free: what comes next goes there."""


def held(database: Database) -> list[Held]:
    """Return how much is kept of each kind, by principal where it has one, the most first."""

    def work(c: apsw.Connection) -> list[Held]:
        found: list[Held] = []
        for kind, sql in KINDS.items():
            rows: Any = c.execute(sql).fetchall()
            found += [Held(kind, whose, count, size or 0) for whose, count, size in rows if count]
        return sorted(found, key=lambda one: -one.size_bytes)

    return database.read(work, use="bulk")


def size(database: Database) -> StateSize:
    """Return how large the files are, and how much of the main one is free."""
    log = database.path.with_name(database.path.name + "-wal")
    ((page,),), ((free,),) = database.query("PRAGMA page_size"), database.query("PRAGMA freelist_count")
    log_bytes = log.stat().st_size if log.exists() else 0
    return StateSize(database.path.stat().st_size, log_bytes, int(str(page)) * int(str(free)))


def gives_back(database: Database) -> bool:
    """Return whether free pages can be given back a few at a time: what an older program made takes one VACUUM first."""
    ((mode,),) = database.query("PRAGMA auto_vacuum")
    return mode == 2


def give_back_some(database: Database, *, spare: bool = True) -> bool:
    """Give back some free pages to the file system; return whether there are more. With `spare` some stay free."""

    def work(c: apsw.Connection) -> bool:
        counts: Any = [c.execute(f"PRAGMA {name}").fetchall()[0][0] for name in ("page_count", "freelist_count")]
        left = counts[1] - (counts[0] // SPARE_SHARE if spare else 0)
        if left <= 0:
            return False
        c.execute(f"PRAGMA incremental_vacuum({min(left, STEP_PAGES)})").fetchall()
        return bool(left > STEP_PAGES)

    return gives_back(database) and database.write_now(work)


def vacuum(database: Database) -> None:
    """Write the whole file anew, without free pages, and so that it can give them back later. Others cannot write meanwhile.

    Raises:
        DatabaseUnavailable: the disk has no room for it. Nothing was changed.
    """
    need = database.path.stat().st_size
    for folder in (str(database.path.parent), *filter(os.path.isdir, (tempfile.gettempdir(), LARGE_TEMPORARY))):
        room = shutil.disk_usage(folder).free
        if room < 2 * need:
            reason = f"{folder} has {size_in_words(room)} free, and rewriting the file takes {size_in_words(2 * need)}"
            raise DatabaseUnavailable(str(database.path), reason)
    database.alone(lambda c: (c.execute("PRAGMA auto_vacuum=INCREMENTAL").fetchall(), c.execute("VACUUM").fetchall()))
    database.shorten_log()
