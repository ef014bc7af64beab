"""Measures a state database in SQLite, and returns its free space to the file system."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

import apsw

from knowledge.errors import DatabaseUnavailable, size_in_words
from knowledge.state.ports import StateSize
from knowledge.state.sqlite.database import Database

STEP_PAGES = 500
"""Free pages returned in one transaction: about 2 MB, which make writers wait a few milliseconds."""
LARGE_TEMPORARY = "/var/tmp"  # noqa: S108 - where SQLite writes the copy by default
SPARE_SHARE = 20
"""One page in this many is kept free for the next writes."""


def size(database: Database) -> StateSize:
    """Return the sizes of the files, and of the free space in the main one."""
    log = database.path.with_name(database.path.name + "-wal")
    ((page,),), ((free,),) = database.query("PRAGMA page_size"), database.query("PRAGMA freelist_count")
    log_bytes = log.stat().st_size if log.exists() else 0
    return StateSize(database.path.stat().st_size, log_bytes, int(str(page)) * int(str(free)))


def gives_back(database: Database) -> bool:
    """Return whether free pages can be given back a few at a time; a file of an older program needs one VACUUM first."""
    ((mode,),) = database.query("PRAGMA auto_vacuum")
    return mode == 2  # INCREMENTAL


def give_back_some(database: Database, *, spare: bool = True) -> bool:
    """Return some free pages to the file system; tell whether there are more. With `spare` some stay free."""

    def work(c: apsw.Connection) -> bool:
        counts: Any = [c.execute(f"PRAGMA {name}").fetchall()[0][0] for name in ("page_count", "freelist_count")]
        left = counts[1] - (counts[0] // SPARE_SHARE if spare else 0)
        if left <= 0:
            return False
        c.execute(f"PRAGMA incremental_vacuum({min(left, STEP_PAGES)})").fetchall()
        return bool(left > STEP_PAGES)

    return gives_back(database) and database.write_now(work)


def vacuum(database: Database) -> None:
    """Rewrite the whole file without free pages, so that it can give them back later. Others cannot write in the meantime.

    Raises:
        DatabaseUnavailable: the disk has no room for it. Nothing was changed.
    """
    need = database.path.stat().st_size
    for folder in (str(database.path.parent), *filter(os.path.isdir, (tempfile.gettempdir(), LARGE_TEMPORARY))):
        room = shutil.disk_usage(folder).free
        # VACUUM may take twice the size of the file, in a temporary folder and beside the file. Source: SQLite, "VACUUM".
        if room < 2 * need:
            reason = f"{folder} has {size_in_words(room)} free, and rewriting the file takes {size_in_words(2 * need)}"
            raise DatabaseUnavailable(str(database.path), reason)
    database.alone(lambda c: (c.execute("PRAGMA auto_vacuum=INCREMENTAL").fetchall(), c.execute("VACUUM").fetchall()))
    database.shorten_log()
