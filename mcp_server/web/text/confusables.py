"""Find letters that look like other letters, so that a word can be mistaken for another. Pure.

The attack: a person approves `аdmin.md` or `еxample.com` with a Cyrillic first letter and takes it for the name that they know.

Source: Unicode Technical Standard 39, "Unicode Security Mechanisms", sections 4 (confusables) and 5 (mixed scripts). The tables
are our own and short. They list look-alikes of ASCII only, because paths, commands and names are written in ASCII.
"""

# ruff: noqa: RUF001, RUF002 - this file is about letters that look like others

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
"""Letters of other scripts that most fonts draw exactly like a Latin one."""

SIMILAR = {
    **SAME,
    **dict(zip("αγικρτυχηω", "ayikptuxnw", strict=True)),
    **dict(zip("вкмнтгьпԍ", "bkmhtrbng", strict=True)),
    **dict(zip("ոքյլտ", "npjlu", strict=True)),
}
"""`SAME`, and letters that look Latin only inside a Latin word, such as Greek alpha in `pαth`."""

FORMS = {
    **dict(zip("ɑɡɩǀǃ", "agil!", strict=True)),
    **dict(zip("\u2044\u2215\u29f8\uff0f\u2571", "/////", strict=True)),
    **dict(zip("\u2024\uff0e\ua4f8\u3002\uff61", ".....", strict=True)),
    **dict(zip("\u2236\ua789\uff1a\u0589\u05c3\u037e", ":::::;", strict=True)),
    **dict(zip("\uff20\ufe6b\uff3c\u2216\u29f5", "@@\\\\\\", strict=True)),
}
"""Letters and signs that are rare in honest text. In a path or an address they pose as its separators.

`example.com⁄login.org` has a fraction slash: its host is not `example.com`.
"""

_STYLED = (
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\u2102\u210a-\u2115\u2118-\u211d\u2124\u2128-\u2138"
)
"""Latin letters and digits of full width and of mathematics. Searching for the plain word does not find them."""
_SUSPECT = re.compile(f"[{''.join(map(re.escape, {**SIMILAR, **FORMS}))}{_STYLED}]")
_FORM = re.compile(f"[{''.join(map(re.escape, FORMS))}{_STYLED}]")
_WORD = re.compile(r"[^\W\d_]+")
_MIXED, _LOOKS = "mixed", "looks Latin but is "
_OTHERS = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})


def lookalikes(text: str) -> dict[int, str]:
    """Return the positions of characters that pose as another one, each with the character that it looks like.

    These are letters of another script inside a Latin word, whole words of another script whose letters all look Latin,
    and signs that pose as `/`, `.`, `:` or `@`. A word that looks Latin is not marked next to a word that is certainly
    in its script, because that text is probably Russian or Greek.
    """
    if text.isascii():
        return {}
    found: dict[int, str] = {}
    start = 0
    for line in text.split("\n"):
        if not line.isascii() and _SUSPECT.search(line):
            found.update((start + at, latin) for at, latin in _in_line(line))
        start += len(line) + 1
    return found


def _in_line(line: str) -> Iterator[tuple[int, str]]:
    words = [(match.start(), match.group()) for match in _WORD.finditer(line)]
    kinds = [_kind(word) for _, word in words]
    neighbours = zip(_certain_before(kinds), reversed(_certain_before(kinds[::-1])), strict=True)
    for (start, word), kind, beside in zip(words, kinds, neighbours, strict=True):
        poses = kind.startswith(_LOOKS) and kind.removeprefix(_LOOKS) not in beside
        table = SIMILAR if kind == _MIXED else SAME if poses else {}
        yield from ((start + at, table[letter]) for at, letter in enumerate(word) if letter in table)
    for match in _FORM.finditer(line):
        yield match.start(), FORMS.get(match.group()) or unicodedata.normalize("NFKC", match.group())


def _certain_before(kinds: Sequence[str]) -> list[str]:
    """Return for each word the kind of the nearest one before it whose script is certain, "" if there is none."""
    last, found = "", []
    for kind in kinds:
        found.append(last)
        last = last if kind.startswith(_LOOKS) else kind
    return found


@lru_cache(maxsize=5000)
def _kind(word: str) -> str:
    """Return the word's script; `_MIXED` if it has several; `_LOOKS` and the script if all its letters look Latin; "" if unknown."""
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
