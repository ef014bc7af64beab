"""How often a document has which words, in few bytes."""

from __future__ import annotations

import json
import zlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from knowledge.index.store.sqlite_write import pack_words, unpack_words
from knowledge.search.query.analysis import words


@given(st.text(max_size=200), st.integers(1, 1_000))
def test_what_was_packed_is_unpacked(text: str, often: int) -> None:
    counts = Counter(dict.fromkeys(words(text), often))
    assert unpack_words(pack_words(counts)) == counts


def test_a_word_in_very_many_chunks_keeps_its_count() -> None:
    counts = Counter({"a": 255, "b": 256, "\u77e5\u8b58": 1})
    assert unpack_words(pack_words(counts)) == counts


def test_what_an_earlier_version_packed_is_unpacked() -> None:
    """An old index is still valid: only changed rows are rewritten."""
    counts = {"été": 2, "page": 300}
    assert unpack_words(zlib.compress(json.dumps(counts).encode(), 1)) == counts
