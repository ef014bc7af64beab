"""Parses Markdown into markdown-it's tokens, in bounded work, whatever the text.

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

from mcp_server.web.markdown.syntax.bare_addresses import add_bare_addresses
from mcp_server.web.markdown.syntax.footnotes import add_footnotes
from mcp_server.web.markdown.syntax.line_rules import add_line_rules
from mcp_server.web.markdown.syntax.obsidian_blocks import add_block_rules

DEEPEST = 40
"""Levels of quotes and lists that are followed; the parser drops deeper text, so the block is shown as its source."""
LONGEST_PARAGRAPH = 100_000
"""Characters of one paragraph that are parsed. Some patterns of the parser copy the rest of the paragraph at each `<`."""
MOST_STEPS = 1_000_000
"""Steps for one page with all that it embeds. A megabyte of the handbook takes 53,000."""
LEAST_STEPS = 20_000
"""Steps that the shortest page has. A longer one has two for each character, up to `MOST_STEPS`."""

_STEPS = "forge_steps"
TOO_MUCH = "too_much"
"""The key in the `meta` of an inline token whose text was not parsed."""


class TooManySteps(Exception):
    """The text takes more steps than the page may."""


@dataclass(slots=True)
class ParserSteps:
    """The steps that are left for a page and everything embedded in it."""

    left: int = MOST_STEPS

    @classmethod
    def for_text(cls, length: int) -> ParserSteps:
        """Return the steps of a page with a text of this length."""
        return cls(min(MOST_STEPS, LEAST_STEPS + 2 * length))

    def spend(self, steps: int = 1) -> None:
        """Count `steps`.

        Raises:
            TooManySteps: none are left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooManySteps


def parse_markdown(text: str, steps: ParserSteps, env: dict[str, Any]) -> list[Token]:
    """Return the tokens of `text`; what the parser keeps for later (references, footnotes) is in `env`.

    Raises:
        TooManySteps: the blocks alone take too many. A paragraph that takes too many has `TOO_MUCH` in its `meta`.
    """
    env[_STEPS] = steps
    try:
        return _parser(www="www." in text).parse(text, env)
    except RecursionError:
        raise TooManySteps from None


@cache
def _parser(*, www: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": DEEPEST, "strikethrough_single_tilde": True})
    parser.inline = _CountedInline()
    parser.enable(["table", "strikethrough"])
    # A lone CR would become a line end, and the lines no longer be those of the file.
    parser.core.ruler.disable("normalize")
    # Addresses are judged where they are written: a link that is not allowed is shown as such.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005 - markdown-it's signature
    add_line_rules(parser)
    add_footnotes(parser)
    add_bare_addresses(parser)
    add_block_rules(parser)
    if www:
        # Rules are called at certain characters only. This one costs a tenth of the time, so texts without `www.` are spared.
        parser.inline.add_terminator_char("w")
    parser.inline.ruler.before("text", "count", _count)
    parser.block.ruler.before("table", "count", _count_block)
    parser.core.ruler.at("inline", _parse_lines)
    return parser


class _CountedInline(ParserInline):
    """Counts also the positions that are cached: nested brackets visit each of them a thousand times."""

    def skipToken(self, state: StateInline) -> None:  # noqa: N802 - markdown-it's name
        if state.pos in state.cache:
            state.env[_STEPS].spend()
        super().skipToken(state)


def _count(state: StateInline, silent: bool) -> bool:  # noqa: FBT001, ARG001 - markdown-it calls it so
    state.env[_STEPS].spend()
    return False


def _count_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001, ARG001 - as above
    # Each quote and list around a block reads its lines again.
    if not silent:
        state.env[_STEPS].spend(1 + state.level)
    return False


def _parse_lines(state: StateCore) -> None:
    """Parse the text of every paragraph, heading and cell; one that takes too long is left as it is."""
    steps = state.env[_STEPS]
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        try:
            if len(token.content) > LONGEST_PARAGRAPH or steps.left < 0:
                raise TooManySteps  # noqa: TRY301 - one place for all that is too much
            state.md.inline.parse(token.content, state.md, state.env, token.children)
        except (TooManySteps, RecursionError):
            token.children = [Token("text", "", 0, content=token.content)]
            token.meta[TOO_MUCH] = True
