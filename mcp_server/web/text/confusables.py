"""Letters that read like other letters: where a word is not what it looks like. Pure.

Source: Unicode Technical Standard 39, "Unicode Security Mechanisms", sections 4 (confusables) and 5 (mixed scripts); the
tables are our own and short: what reads like ASCII, which is what paths, commands and names are made of.
"""

# ruff: noqa: RUF001 - letters that read like others are what this file is about

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

SAME = {
    **dict(zip("асеорхуіјѕԁԛԝһӏѵ", "aceopxyijsdqwhlv", strict=True)),
    **dict(zip("АВЕКМНОРСТХУІЈЅԚԜӀѴԌ", "ABEKMHOPCTXYIJSQWIVG", strict=True)),
    **dict(zip("ονϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹ", "ovcjABEZHIKMNOPTYXC", strict=True)),
    **dict(zip("օսհցզՕՍ", "ouhgqOU", strict=True)),
    **dict(zip("ᎪᏴᏟᎬᎻᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ", "ABCEHJKLMPRSTVWZ", strict=True)),  # Cherokee
}
"""Letters of other scripts that most typefaces draw exactly like a Latin one."""

SIMILAR = {
    **SAME,
    **dict(zip("αγικρτυχηω", "ayikptuxnw", strict=True)),
    **dict(zip("вкмнтгьпԍ", "bkmhtrbng", strict=True)),
    **dict(zip("ոքյլտ", "npjlu", strict=True)),
}
"""Those too that read like one inside of a Latin word."""

FORMS = {
    **dict(zip("ɑɡɩǀǃ", "agil!", strict=True)),
    **dict(zip("\u2044\u2215\u29f8\uff0f\u2571", "/////", strict=True)),
    **dict(zip("\u2024\uff0e\ua4f8\u3002\uff61", ".....", strict=True)),
    **dict(zip("\u2236\ua789\uff1a\u0589\u05c3\u037e", ":::::;", strict=True)),
    **dict(zip("\uff20\ufe6b\uff3c\u2216\u29f5", "@@\\\\\\", strict=True)),
}
"""Letters and signs that are no part of any word in most texts, and read like one in a path or an address."""

_DRESSED = (
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\u2102\u210a-\u2115\u2118-\u211d\u2124\u2128-\u2138"
)
"""Latin letters and digits in other dress: full width, mathematical."""
_SUSPECT = re.compile(f"[{''.join(map(re.escape, {**SIMILAR, **FORMS}))}{_DRESSED}]")
_FORM = re.compile(f"[{''.join(map(re.escape, FORMS))}{_DRESSED}]")
_WORD = re.compile(r"[^\W\d_]+")
_MIXED, _LOOKS = "mixed", "looks Latin but is "
_OTHERS = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})


def alike(text: str) -> dict[int, str]:
    """Return where in `text` a character reads like another one that is meant by nobody who writes plainly, and like which.

    That is a letter of another script inside a Latin word; a word of another script made only of letters that look Latin,
    unless a word beside it shows that the script is written there; and signs that pose as `/`, `.`, `:` or `@`.
    """
    if text.isascii():
        return {}
    found: dict[int, str] = {}
    start = 0
    for line in text.split("\n"):
        if not line.isascii() and _SUSPECT.search(line):
            found.update((start + at, like) for at, like in _in_line(line))
        start += len(line) + 1
    return found


def _in_line(line: str) -> Iterator[tuple[int, str]]:
    words = [(match.start(), match.group()) for match in _WORD.finditer(line)]
    kinds = [_kind(word) for _, word in words]
    around = zip(_last_plain(kinds), reversed(_last_plain(kinds[::-1])), strict=True)
    for (start, word), kind, beside in zip(words, kinds, around, strict=True):
        poses = kind.startswith(_LOOKS) and kind.removeprefix(_LOOKS) not in beside
        table = SIMILAR if kind == _MIXED else SAME if poses else {}
        yield from ((start + at, table[letter]) for at, letter in enumerate(word) if letter in table)
    for match in _FORM.finditer(line):
        yield match.start(), FORMS.get(match.group()) or unicodedata.normalize("NFKC", match.group())


def _last_plain(kinds: Sequence[str]) -> list[str]:
    """Return for each word what the nearest one before it is that does not only look Latin, "" where there is none."""
    last, found = "", []
    for kind in kinds:
        found.append(last)
        last = last if kind.startswith(_LOOKS) else kind
    return found


@lru_cache(maxsize=5000)
def _kind(word: str) -> str:
    """Return what the word is written in: a script, several, or one of which all these letters look Latin and none is."""
    if word.isascii():
        return "LATIN"
    scripts = {_script(letter) for letter in word}
    others = scripts & _OTHERS
    if others and (len(others) > 1 or "LATIN" in scripts):
        return _MIXED
    if others:
        script = next(iter(others))
        return f"{_LOOKS}{script}" if all(letter in SAME for letter in word) else script
    return next(iter(scripts)) if len(scripts) == 1 else ""


@lru_cache(maxsize=5000)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
