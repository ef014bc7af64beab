"""The parts of a long answer: the cursor that leads from one to the next, and the chunks that are left to be shown. Pure.

A cursor consists of the question's key and of the marks of all chunks that were shown, so that the next part repeats
nothing even if files change in between.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from knowledge.errors import BadCursor
from knowledge.search.ranking.fusion import spread
from knowledge.search.ranking.ranker import Ranking
from knowledge.state.ports import ChunkRow

MARK_BYTES = 6
"""Bytes of a chunk's mark: among a few hundred chunks, two have the same mark once in a billion cases."""
KEY_DIGITS = 12


def key_of(*asked: object) -> str:
    """Return the key of a question and all that restricts it: a cursor must not be used for another question."""
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:KEY_DIGITS]


def marks_in(cursor: str, key: str) -> Sequence[str]:
    """Return the marks in a cursor.

    Raises:
        BadCursor: it belongs to another question, or is not a cursor.
    """
    length = len(base64.urlsafe_b64encode(bytes(MARK_BYTES)))
    marks = cursor[KEY_DIGITS:]
    if cursor[:KEY_DIGITS] != key or len(marks) % length or not marks.isascii():
        raise BadCursor(cursor)
    return [marks[at : at + length] for at in range(0, len(marks), length)]


def cursor_behind(key: str, seen: Sequence[str], ranking: Ranking, shown: Sequence[int]) -> str:
    """Return the cursor of the answer to the question with that key, behind the chunks seen earlier and those shown now."""
    return key + "".join([*seen, *(_mark(ranking.plain_row(seq)) for seq in shown)])


def unseen(seen: Sequence[str], ranking: Ranking, *, is_sure: bool, usual: int) -> Sequence[int]:
    """Return the ranked chunks whose marks are not among those already seen, in the order in which answers show them.

    If the best page is sure, its passages come first, because one of them has the answer. Otherwise each `usual` of the chunks are
    of many pages, because another page may be meant.
    """
    order = ranking.ranked
    if not is_sure:
        order = spread([(seq, ranking.rows[seq].doc) for seq in order], window=usual)
    if not seen:
        return order
    marks = frozenset(seen)
    return [seq for seq in order if _mark(ranking.plain_row(seq)) not in marks]


def _mark(row: ChunkRow) -> str:
    """Return a short hash of a chunk's place and text, which stays the same when its page is reindexed."""
    content = "\0".join((row.path, *row.section, row.text)).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(hashlib.blake2b(content, digest_size=MARK_BYTES).digest()).decode()
