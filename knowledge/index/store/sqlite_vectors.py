"""Exchanging the vectors of an index: new ones are stored beside those in use, and replace them all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from knowledge.errors import LeaseLost
from knowledge.state.ports import IndexIdentity, IndexPosition, LackingRow, Progress, Space

META = "SELECT space, seq, embedder, dimensions, recipe, coming_embedder, coming_dimensions FROM meta"
_NOT_SUPPLIED = "NOT EXISTS (SELECT 1 FROM coming WHERE coming.digest = code.digest)"
_LACKING_ANY = f"FROM code WHERE seq > ? AND {_NOT_SUPPLIED}"
_LACKING_NONE = f"FROM vector JOIN code USING (seq) WHERE half = x'' AND seq > ? AND {_NOT_SUPPLIED}"


def space(c: apsw.Connection) -> Space:
    """Return which embedder's vectors are stored, and which are being made."""
    return space_of(c.execute(META).fetchall())


def space_of(rows: Any) -> Space:
    """Return the space in the one row of `META`."""
    ((generation, seq, embedder, dimensions, recipe, coming, coming_dimensions),) = rows
    identity = IndexIdentity(embedder or "", dimensions or 0, recipe or 0)
    arriving = None if coming is None else IndexIdentity(coming, coming_dimensions, identity.recipe)
    return Space(identity, IndexPosition(generation, seq), arriving)


def require_fence(fence: int, c: apsw.Connection) -> None:
    """Store `fence`.

    Raises:
        LeaseLost: a writer with a higher one has been here.
    """
    ((highest,),) = c.execute("SELECT fence FROM meta").fetchall()
    if isinstance(highest, int) and fence < highest:
        raise LeaseLost("index", fence)
    c.execute("UPDATE meta SET fence = ?", (fence,))


def want(identity: IndexIdentity, c: apsw.Connection) -> None:
    """Make `identity` the wanted one, and delete vectors that were supplied for another."""
    found = space(c)
    if found.wanted.same_vectors(identity):
        return
    c.execute("DELETE FROM coming")
    # Back to the embedder in use: no new vectors are needed.
    in_use = found.identity.same_vectors(identity)
    coming = (None, None) if in_use else (identity.embedder, identity.dimensions)
    c.execute("UPDATE meta SET coming_embedder = ?, coming_dimensions = ?", coming)


def set_aside(identity: IndexIdentity, c: apsw.Connection) -> tuple[str, int] | None:
    """Keep the vectors of the wanted embedder as supplied ones, before an index for `identity` is emptied.

    Returns that embedder and the length of its vectors. Returns None and keeps nothing if `identity` is for the same vectors, or
    for none: then all are made again.
    """
    found = space(c)
    wanted = found.wanted
    if not identity.embedder or not wanted.embedder or wanted.same_vectors(identity):
        return None
    if found.coming is None:
        c.execute(
            "INSERT OR REPLACE INTO coming SELECT digest, half, code.code FROM code JOIN vector USING (seq) WHERE half != x''"
        )
    return wanted.embedder, wanted.dimensions


def lacking(after: int, limit: int, c: apsw.Connection) -> Sequence[LackingRow]:
    """Return at most `limit` chunks above `after` without a vector of the wanted embedder."""
    rows: Any = c.execute(
        # Limited before the join, so that only the texts of the returned rows are read.
        f"SELECT seq, digest, title, section, text FROM (SELECT seq, digest {_lacking(c)} ORDER BY seq LIMIT ?) "  # noqa: S608 - constants
        "JOIN chunk USING (seq) JOIN document USING (doc) ORDER BY seq",
        (after, limit),
    ).fetchall()
    return [
        LackingRow(seq, digest, title, tuple(json.loads(section)), text) for seq, digest, title, section, text in rows
    ]


def _lacking(c: apsw.Connection) -> str:
    return _LACKING_NONE if space(c).coming is None else _LACKING_ANY


def supply(vectors: Mapping[bytes, tuple[bytes, bytes]], of: IndexIdentity, fence: int, c: apsw.Connection) -> bool:
    """Store these vectors beside those in use.

    Returns False and stores nothing if `of` is not the configured embedder.
    """
    require_fence(fence, c)
    # The embedder was changed while these were made: vectors of two models can't be compared.
    if not space(c).wanted.same_vectors(of):
        return False
    c.executemany(
        "INSERT INTO coming VALUES (?1, ?2, ?3) ON CONFLICT (digest) DO UPDATE SET half = ?2, code = ?3",
        [(digest, half, code) for digest, (half, code) in vectors.items()],
    )
    return True


def swap(fence: int, c: apsw.Connection) -> bool:
    """Use the supplied vectors from now on.

    Returns False and does nothing while a chunk lacks one.
    """
    require_fence(fence, c)
    found = space(c)
    if c.execute(f"SELECT 1 {_lacking(c)} LIMIT 1", (0,)).fetchall():
        return False
    if found.coming is not None:
        _exchange("", c)
        # Dimensions 0: the embedder's settings leave the length to the model, so it is read off the vectors.
        learned = "coalesce(nullif(coming_dimensions, 0), (SELECT max(length(half)) / 2 FROM coming), 0)"
        c.execute(f"UPDATE meta SET embedder = coming_embedder, dimensions = {learned}")  # noqa: S608 - a constant
    elif _some_missing(c):
        _exchange("WHERE seq IN (SELECT seq FROM vector WHERE half = x'')", c)
    else:
        return True
    c.execute("DELETE FROM coming")
    # A new generation of vectors: engines must not compare them with those of the old one.
    c.execute("UPDATE meta SET space = lower(hex(randomblob(8))), coming_embedder = NULL, coming_dimensions = NULL")
    return True


def _exchange(where: str, c: apsw.Connection) -> None:
    # Codes before vectors: empty vectors are how chunks without one are found.
    c.execute(
        f"UPDATE code SET code = (SELECT coming.code FROM coming WHERE coming.digest = code.digest) {where}"  # noqa: S608 - constants
    )
    c.execute(
        f"UPDATE vector SET half = (SELECT coming.half FROM code JOIN coming USING (digest) WHERE code.seq = vector.seq) {where}"  # noqa: S608 - constants
    )


def _some_missing(c: apsw.Connection) -> bool:
    return bool(c.execute("SELECT 1 FROM vector WHERE half = x'' LIMIT 1").fetchall())


def renewal(c: apsw.Connection) -> Progress | None:
    """Return the number of chunks with a vector of the wanted embedder, and of all chunks; None if all have one."""
    if space(c).coming is None and not _some_missing(c):
        return None
    total: Any = c.execute("SELECT count(*) FROM code").fetchall()[0][0]
    missing: Any = c.execute(f"SELECT count(*) {_lacking(c)}", (0,)).fetchall()[0][0]
    return Progress(total - missing, total)
