"""Converts text that a caller sent to the conventions of its file: line ends, BOM, front matter. Pure.

A caller sees a page with LF lines and without BOM and front matter, and sends it back like that: this is not an edit. An empty
front matter at the beginning asks to remove the front matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge.merge.document.units import BLANK, BOM, bare, cut, split_lines
from knowledge.merge.three_way.line_join import matches

_EMPTY_FRONT = re.compile(r"---[ \t]*\r?\n---[ \t]*(?:\r?\n)+")


def fit_to_page(incoming: str, base: str, current: str) -> tuple[str, str]:
    """Return `incoming` and `base` with the BOM and line ends of `current`, `incoming` with the front matter of `base`.

    If a text and `current` use one kind of line end each, the text gets that of `current`. If `base` mixes several and
    `incoming` has LF only, each line of `incoming` that is also in `base` ends as it does there.
    """
    if not current:
        return incoming, base
    bom = BOM if current.startswith(BOM) else ""
    base, incoming = base.removeprefix(BOM), incoming.removeprefix(BOM)
    style = _only_end(current)
    base = _with_end(base, style)
    mixed = _only_end(base) is None and _only_end(incoming) == "\n"
    incoming = _with_ends_of(incoming, base) if mixed else _with_end(incoming, style)
    # A text that is all gone is a deletion, not a text without front matter.
    if incoming.strip(BLANK) and base.strip(BLANK):
        incoming = _with_front_of(incoming, base)
    return bom + incoming, bom + base


def fit_line_ends(content: str, to: Sequence[str]) -> str:
    """Return `content` with the kind of line end that the lines `to` have, if `content` and `to` use only one kind each."""
    return _with_end(content, _only_end("".join(to)))


def _only_end(text: str) -> str | None:
    """Return the one line end that a text uses, "" without any, None if it uses several."""
    windows = text.count("\r\n")
    kinds = {"\r\n": windows, "\n": text.count("\n") - windows, "\r": text.count("\r") - windows}
    used = [end for end, count in kinds.items() if count]
    return None if len(used) > 1 else "".join(used)


def _with_end(text: str, end: str | None) -> str:
    own = _only_end(text)
    return text.replace(own, end) if own and end and own != end else text


def _with_ends_of(text: str, base: str) -> str:
    """Return `text` with the line ends of `base`.

    A line that is also in `base` ends as it does there; any other line ends as the line before it.
    """
    lines, known = split_lines(text), split_lines(base)
    ends = [line[len(bare(line)) :] for line in known]
    same = dict(matches([bare(line) for line in lines], [bare(line) for line in known]))
    found: list[str] = []
    end = next((end for end in ends if end), "\n")
    for at, line in enumerate(lines):
        end = ends[same[at]] or end if at in same else end
        found.append(bare(line) + end if line != bare(line) else line)
    return "".join(found)


def _with_front_of(text: str, base: str) -> str:
    """Return `text`, with the front matter of `base` and the blank lines below that if it has no front matter of its own.

    An empty front matter at the beginning of `text` is removed, and none is added.
    """
    pieces, own = cut(base).pieces, cut(text).pieces
    if (empty := _EMPTY_FRONT.match(text)) is not None:
        return text[empty.end() :]
    if pieces[0].kind != "front" or own[0].kind == "front":
        return text
    lead = pieces[1].text if len(pieces) > 1 and pieces[1].kind == "blank" and own[0].kind != "blank" else ""
    return pieces[0].text + lead + text
