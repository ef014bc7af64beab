"""Parses Markdown into markdown-it's tokens: CommonMark, tables, and what Obsidian adds. Bounded in work, whatever the text.

Work is counted in steps of the parser and not in time, so that a page looks the same on a slow machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from mcp_server.web.markdown.line_rules import add_line_rules
from mcp_server.web.markdown.obsidian_blocks import add_block_rules

DEEPEST = 40
"""Levels of quotes and lists that are followed; the parser drops deeper text, so the block is shown as its source."""
LONGEST_PARAGRAPH = 100_000
"""Characters of one paragraph that are parsed. Some patterns of the parser copy the rest of the paragraph at each `<`."""
MOST_STEPS = 600_000
"""Steps for one page. A page of prose takes one for about ten characters."""

_BUDGET = "forge_budget"
TOO_MUCH = "too_much"
"""The key in the `meta` of an inline token whose text was not parsed."""


class TooManySteps(Exception):
    """The text takes more steps than the page may."""


@dataclass(slots=True)
class ParserSteps:
    """The steps that are left for a page and everything embedded in it."""

    left: int = MOST_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count `steps`.

        Raises:
            TooManySteps: none are left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooManySteps


def parse_markdown(text: str, budget: ParserSteps, env: dict[str, Any]) -> list[Token]:
    """Return the tokens of `text`; what the parser keeps for later (references, footnotes) is in `env`.

    Raises:
        TooManySteps: the blocks alone take too many. A paragraph that takes too many has `TOO_MUCH` in its `meta`.
    """
    env[_BUDGET] = budget
    try:
        return _parser().parse(text, env)
    except RecursionError:
        raise TooManySteps from None


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": DEEPEST, "strikethrough_single_tilde": True})
    parser.inline = _CountedInline(parser.inline)
    parser.enable(["table", "strikethrough"])
    # Addresses are judged where they are written: a link that is not allowed is shown as such.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005 - markdown-it's signature
    add_line_rules(parser)
    add_block_rules(parser)
    parser.inline.ruler.before("text", "count", _count)
    parser.block.ruler.before("table", "count", _count_block)
    parser.core.ruler.at("inline", _parse_lines)
    return parser


class _CountedInline(ParserInline):
    """Counts also the positions that it has cached: nested brackets visit each a thousand times."""

    def __init__(self, other: ParserInline) -> None:
        super().__init__()
        self.ruler, self.ruler2 = other.ruler, other.ruler2

    def skipToken(self, state: StateInline) -> None:  # noqa: N802 - markdown-it's name
        if state.pos in state.cache:
            state.env[_BUDGET].spend()
        super().skipToken(state)


def _count(state: StateInline, silent: bool) -> bool:  # noqa: FBT001, ARG001 - markdown-it calls it so
    state.env[_BUDGET].spend()
    return False


def _count_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001, ARG001 - as above
    if not silent:
        state.env[_BUDGET].spend()
    return False


def _parse_lines(state: StateCore) -> None:
    """Parse the text of every paragraph, heading and cell; one that takes too long is left as it is."""
    budget = state.env[_BUDGET]
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        try:
            if len(token.content) > LONGEST_PARAGRAPH or budget.left < 0:
                raise TooManySteps  # noqa: TRY301 - one place for all that is too much
            state.md.inline.parse(token.content, state.md, state.env, token.children)
        except (TooManySteps, RecursionError):
            token.children = [Token("text", "", 0, content=token.content)]
            token.meta[TOO_MUCH] = True
