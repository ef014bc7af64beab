"""Rules for blocks: comments, mathematics, callouts, ids of blocks, tasks.

Source: help.obsidian.md (Callouts, Link to blocks, Basic formatting syntax); docs.github.com for alerts, which are callouts.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_CALLOUT = re.compile(r"\[!([\w-]{1,40})(?:\|[^\]\n]{0,60})?\]([-+]?)[ \t]*([^\n]*)(?:\n|\Z)")
_BLOCK_ID = re.compile(r"(?:^|[ \t\n])\^([A-Za-z0-9-]{1,100})[ \t]*\Z")
_TASK = re.compile(r"\[([ xX])\][ \t\n]")
BLOCK_ANCHOR = "block_anchor"
"""The type of a token with the id of the block after it."""


def add_block_rules(parser: MarkdownIt) -> None:
    """Add the rules to the parser."""
    endings: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("table", "comment_block", _comment, endings)
    parser.block.ruler.before("table", "math_block", _math, endings)
    parser.core.ruler.before("inline", "obsidian", _adapt)


def _comment(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001, ARG001 - markdown-it calls it so
    """Read a comment that opens on a line of its own; the index sees one in the same places (`knowledge/pages/markdown/blocks.py`)."""
    first = state.bMarks[start]
    if (
        state.level
        or not state.src.startswith("%%", first)
        or state.src.find("%%", first + 2, state.eMarks[start]) >= 0
    ):
        return False
    if silent:
        return True
    at = state.src.find("%%", state.eMarks[start])
    if at < 0:
        return False
    last = start + state.src.count("\n", first, at)
    token = state.push("comment", "", 0)
    token.map = [start, last + 1]
    state.line = last + 1
    return True


def _math(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    first = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith("$$", first) or state.is_code_block(start):
        return False
    line = state.src[first + 2 : state.eMarks[start]].rstrip()
    if line:
        if not line.endswith("$$"):
            return False
        last = start
    else:
        last = start + 1
        while last < end and state.sCount[last] >= state.blkIndent and not state.isEmpty(last):
            if state.src.endswith("$$", state.bMarks[last], state.eMarks[last]):
                break
            last += 1
        else:
            return False
    if not silent:
        token = state.push("math_block", "code", 0)
        token.map = [start, last + 1]
        token.content = state.getLines(start, last + 1, state.blkIndent, keepLastLF=False)
        state.line = last + 1
    return True


def _adapt(state: StateCore) -> None:
    """Change the blocks into what Obsidian means by them, before their lines are parsed."""
    tokens = state.tokens
    for index, token in enumerate(tokens):
        if token.type == "blockquote_open":
            _callout(tokens, index)
        elif token.type == "inline":
            if tokens[index - 1].type == "paragraph_open" and index > 1 and tokens[index - 2].type == "list_item_open":
                _task(token, tokens[index - 2])
            _block_id(tokens, index)
    if any("split" in token.meta for token in tokens):
        state.tokens = [part for token in tokens for part in token.meta.pop("split", (token,))]


def _callout(tokens: list[Token], index: int) -> None:
    if index + 2 >= len(tokens) or tokens[index + 1].type != "paragraph_open":
        return
    line = tokens[index + 2]
    found = _CALLOUT.match(line.content)
    if not found:
        return
    close = _end_of(tokens, index)
    kind = found[1].lower()
    title = Token("inline", "", 0, content=found[3].strip(), map=line.map, children=[], level=line.level)
    line.content = line.content[found.end() :].lstrip()
    tokens[index].type, tokens[close].type = "callout_open", "callout_close"
    tokens[index].meta = {"kind": kind, "fold": found[2]}
    tokens[close].meta = {"kind": kind, "fold": found[2]}
    if not title.content:
        title.content = kind.replace("-", " ").capitalize()
    marks = (
        Token("callout_title_open", "", 1, meta=tokens[index].meta),
        Token("callout_title_close", "", -1, meta=tokens[index].meta),
    )
    opening = tokens[index + 1]
    if not line.content:
        opening.hidden = tokens[index + 3].hidden = True
    opening.meta["split"] = (marks[0], title, marks[1], opening)


def _task(line: Token, item: Token) -> None:
    found = _TASK.match(line.content)
    if found:
        line.content = line.content[found.end() :]
        item.meta["task"] = found[1]


def _end_of(tokens: list[Token], start: int) -> int:
    """Return the index of the last token of the block whose first token is at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].nesting
        if not depth:
            return index
    return start


def _start_of(tokens: list[Token], end: int) -> int:
    """Return the index of the first token of the block whose last token is at `end`."""
    depth = 0
    for index in range(end, -1, -1):
        depth -= tokens[index].nesting
        if not depth:
            return index
    return end


def _block_id(tokens: list[Token], index: int) -> None:
    line = tokens[index]
    found = _BLOCK_ID.search(line.content) if "^" in line.content[-110:] else None
    if not found or (tokens[index - 1].type == "heading_open" and not line.content[: found.start()].strip()):
        return
    line.content = line.content[: found.start()].rstrip()
    # An id on a line of its own names the block before it.
    if not line.content and tokens[index - 1].type == "paragraph_open" and index > 1 and tokens[index - 2].nesting <= 0:
        tokens[index - 1].hidden = tokens[index + 1].hidden = True
        named = tokens[_start_of(tokens, index - 2)]
        named.meta["split"] = (Token(BLOCK_ANCHOR, "", 0, meta={"id": found[1]}), *named.meta.get("split", (named,)))
    else:
        line.meta["id"] = found[1]
