"""Recognises sentences of one text in another page, ignoring Markdown and line ends. Pure.

Word for word only: a paraphrase is not recognised.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator

FEWEST_WORDS, FEWEST_LETTERS = 5, 24
"""Shorter sentences are too common: two people may write the same one independently."""
FEWEST_UNSPACED = 12
DIGEST_BYTES = 8

_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_BEGINS = re.compile(r"^[ \t>]*(?:#{1,6}|[-*+]|\d{1,9}[.)]|\|)[ \t]+", re.MULTILINE)
_ENDS = re.compile(r"\n[ \t>]*\n|[.!?;:|](?=\s|$|[\"')\]])|[\u3002\uff01\uff1f\uff1b]")
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


def passages(text: str) -> frozenset[bytes]:
    """Return the digests of the sentences of the text."""
    return frozenset(hashlib.blake2b(one.encode(), digest_size=DIGEST_BYTES).digest() for one in _sentences(text))


def repeats(text: str, other: str) -> bool:
    """Return whether `text` has a sentence of `other`, or a line of it if none of its sentences is long enough."""
    known = passages(other)
    if known:
        return not known.isdisjoint(passages(text))
    lines = {line for line in map(str.strip, other.split("\n")) if line}
    return any(line.strip() in lines for line in text.split("\n"))


def _sentences(text: str) -> Iterator[str]:
    # Invisible characters and other Unicode forms of the same letters must not hide a copy.
    seen = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    # A list item, a row or a heading ends the sentence before it; an ordinary line continues it.
    parted = _BEGINS.sub("\n\n", _FENCE.sub("\n\n", seen.replace("\r\n", "\n")))
    for part in _ENDS.split(parted):
        words = _WORD.findall(part.casefold())
        letters = sum(map(len, words))
        # The fewest letters include a space for each word.
        long = len(words) >= FEWEST_WORDS and letters >= FEWEST_LETTERS - len(words)
        if long or (letters >= FEWEST_UNSPACED and len(_UNSPACED.findall(part)) >= FEWEST_UNSPACED):
            yield " ".join(words)
