"""Labels of links and footnotes: a text that is merged into a page keeps its own targets. Pure.

A label such as `[1]` or `[^1]` holds for a whole page, and of two definitions the first one counts. So a definition that came with
new text could lead the old text's links and footnotes elsewhere.

Source: CommonMark 0.31.2, sections 4.7 and 6.3; footnotes as GitHub renders them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count

from knowledge.merge.document.units import cut, units
from knowledge.merge.model import CutDocument
from knowledge.pages.markdown.inline import code_spans

LONGEST_NOTE = 200
"""The most characters of the renamed labels that a note names."""

_DEFINITION = re.compile(r"^ {0,3}\[(\^?[^\[\]\n]{1,200})\]:[ \t]*(\S.*)$", re.MULTILINE)
_LABEL = re.compile(
    r"^ {0,3}\[(?P<defined>\^?[^\[\]\n]{1,200})\](?=:)"
    r"|(?<!\\)\[(?P<note>\^[^\[\]\s]{1,200})\]"
    r"|(?<=\])\[(?P<full>[^\[\]\n]{1,200})\]"
    r"|(?<![\\\[\]])\[(?P<short>[^\[\]\n^][^\[\]\n]{0,199})\](?:\[\])?(?![\[(:])",
    re.MULTILINE,
)
"""A label where it is defined, or where it is used: `[^1]`, `[text][docs]`, `[docs]`."""
_CODE = frozenset({"fence", "code"})


def with_own_labels(
    content: CutDocument, page: CutDocument, *, base: CutDocument | None = None
) -> tuple[CutDocument, Mapping[str, str]]:
    """Return `content` without labels that it and the page define differently, and its changed labels with their new names.

    A label that the page has for the same target takes its place, otherwise a free one. A label stays if a heading uses it,
    because that is a name, and if no text uses it that the page lacks: its definition is a new target for the page's own links.
    So does one that `base` defines, from which `content` was made.
    """
    if "]:" not in content.text or "]:" not in page.text:
        return content, {}
    there = {_folded(label): target for label, target in _definitions(page)}
    known = {_folded(label) for label, _ in _definitions(base)} if base is not None else frozenset[str]()
    own = {label: target for label, target in _definitions(content) if _folded(label) not in known}
    said = {unit.text.strip() for unit in units(page)}
    used: set[str] = set()
    kept: set[str] = set()
    for unit in units(content):
        if unit.kind not in _CODE:
            is_known = unit.kind == "heading" or unit.text.strip() in said
            (kept if is_known else used).update(map(_folded, _uses(unit.text)))
    changed: dict[str, str] = {}
    taken = {*there, *known, *map(_folded, own)}
    for label, target in own.items():
        name = _folded(label)
        if there.get(name, target) == target or name in kept or name not in used:
            continue
        is_note = label.startswith("^")
        same = (one for one, led in there.items() if led == target and one.startswith("^") is is_note)
        changed[label] = next(same, "") or _free(label, taken)
        taken.add(_folded(changed[label]))
    if not changed:
        return content, {}
    names = {_folded(label): new for label, new in changed.items()}
    text = "".join(piece.text if piece.kind in _CODE else _renamed(piece.text, names) for piece in content.pieces)
    return cut(text), changed


def renaming_note(labels: Mapping[str, str]) -> str:
    """Return a note that names the changed labels and their new names."""
    named = ", ".join(f"[{old}] is now [{new}]" for old, new in labels.items())[:LONGEST_NOTE]
    return f"the page already uses labels of your text for other targets: {named}"


def _definitions(document: CutDocument) -> Iterator[tuple[str, str]]:
    """Yield (label, target) of each definition; of two with one label, the first counts."""
    seen: set[str] = set()
    for piece in document.pieces:
        for found in _DEFINITION.finditer(piece.text) if piece.kind not in _CODE else ():
            if _folded(found[1]) not in seen:
                seen.add(_folded(found[1]))
                yield found[1], found[2].strip()


def _uses(text: str) -> Iterator[str]:
    for found in _LABEL.finditer(text):
        if found.lastgroup != "defined" and found.lastgroup is not None:
            yield found[found.lastgroup]


def _folded(label: str) -> str:
    return " ".join(label.casefold().split())


def _free(label: str, taken: set[str]) -> str:
    """Return the next label that nobody uses: a number after a number, else the label with a number behind it."""
    mark, name = ("^", label[1:]) if label.startswith("^") else ("", label)
    if name.isdecimal():
        return next(f"{mark}{number}" for number in count(int(name) + 1) if f"{mark}{number}" not in taken)
    return next(one for number in count(2) if _folded(one := f"{mark}{name}-{number}") not in taken)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    spans = code_spans(text) if "`" in text else ()

    def renamed(found: re.Match[str]) -> str:
        label = found[str(found.lastgroup)]
        new = names.get(_folded(label))
        if new is None or any(begin <= found.start() < end for begin, end, _ in spans):
            return found[0]
        return f"[{label}][{new}]" if found.lastgroup == "short" else found[0].replace(f"[{label}]", f"[{new}]")

    # In one pass, because a new name may be another label of this text.
    return _LABEL.sub(renamed, text)
