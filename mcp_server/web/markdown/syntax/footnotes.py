"""Footnotes: `[^label]`, defined by `[^label]: text` with its further blocks indented, or written in its place as `^[text]`.

Source: GitHub's cmark-gfm, extension `footnotes`; help.obsidian.md for the inline form.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.helpers import parseLinkLabel
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

_DEFINITION = re.compile(r"\[\^([^\[\]\s]{1,200})\]:[ \t]*")
_REFERENCE = re.compile(r"\[\^([^\[\]\s]{1,200})\]")
_KEY = "forge_footnotes"


@dataclass(slots=True)
class NumberedNote:
    """A footnote with its number and how often it is referred to. `inline` are the tokens of one that is written in its place."""

    number: int
    references: int = 0
    inline: list[Token] | None = None


@dataclass(slots=True)
class Footnotes:
    """The footnotes of a text by their labels, in the order of their numbers. Labels ignore case."""

    defined: set[str] = field(default_factory=set)
    numbered: dict[str, NumberedNote] = field(default_factory=dict)

    def refer(self, label: str) -> NumberedNote:
        """Count a reference, and return the footnote; the first reference gives it its number."""
        note = self.numbered.setdefault(label, NumberedNote(len(self.numbered) + 1))
        note.references += 1
        return note


def footnotes_in(env: MutableMapping[str, Any]) -> Footnotes:
    """Return the footnotes of the text that was parsed with `env`."""
    found: Footnotes = env.setdefault(_KEY, Footnotes())
    return found


def add_footnotes(parser: MarkdownIt) -> None:
    """Add the rules to the parser."""
    parser.block.ruler.before("reference", "footnote", _definition, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("link", "footnote", _reference)
    parser.inline.ruler.before("link", "inline_footnote", _inline)


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if state.level or state.is_code_block(start):
        return False
    found = _DEFINITION.match(state.src, state.bMarks[start] + state.tShift[start], state.eMarks[start])
    if not found:
        return False
    if silent:
        return True
    label = found[1].casefold()
    footnotes = footnotes_in(state.env)
    opening = state.push("footnote_open", "", 1)
    opening.meta = {"label": label, "written": found[1], "again": label in footnotes.defined}
    footnotes.defined.add(label)
    # The rest of the line is read as if it were indented like the lines that continue it.
    before = state.bMarks[start], state.tShift[start], state.sCount[start]
    state.blkIndent += 4
    state.bMarks[start], state.tShift[start], state.sCount[start] = found.end(), 0, state.blkIndent
    state.md.block.tokenize(state, start, end)
    state.bMarks[start], state.tShift[start], state.sCount[start] = before
    state.blkIndent -= 4
    # A definition without text takes its line only.
    state.line = max(state.line, start + 1)
    opening.map = [start, state.line]
    state.push("footnote_close", "", -1)
    return True


def _reference(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if not state.src.startswith("[^", state.pos):
        return False
    found = _REFERENCE.match(state.src, state.pos, state.posMax)
    label = found[1].casefold() if found else ""
    footnotes = footnotes_in(state.env)
    if not found or label not in footnotes.defined:
        return False
    if not silent:
        _push(state, footnotes.refer(label))
    state.pos = found.end()
    return True


def _inline(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if not state.src.startswith("^[", state.pos) or state.linkLevel:
        return False
    start = state.pos + 2
    end = parseLinkLabel(state, state.pos + 1)
    if end <= start:
        return False
    if not silent:
        footnotes = footnotes_in(state.env)
        note = footnotes.refer(f"^[{len(footnotes.numbered)}")
        note.inline = []
        state.md.inline.parse(state.src[start:end], state.md, state.env, note.inline)
        _push(state, note)
    state.pos = end + 1
    return True


def _push(state: StateInline, note: NumberedNote) -> None:
    state.push("footnote_reference", "", 0).meta = {"number": note.number, "reference": note.references}
