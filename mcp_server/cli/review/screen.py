"""Review with the keyboard: a list of what is waiting, one proposal at a time, and a decision confirmed by typing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import AskerLine, ProposalLine
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.approvals.proposals import places_of
from mcp_server.cli.review.card import CardBlock, card, folded, listed
from mcp_server.cli.review.session import NOT_CONFIRMED, ReviewSession, confirms, who_asks
from mcp_server.cli.review.view import ScreenPage, View, Word, lacking, press, shown
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.presenters.proposal import ProposalSummary, ending

_LIST_KEYS = "up/down choose   enter open   q quit"
_CARD_KEYS = (
    "space/b turn   n/p next/previous   o open all   a approve   "
    "r reject   c changes   h harmful   t trust   w renew   esc list   q quit"
)
_EDGE = 3
"""Lines of the screen besides the proposal's: head, remark, keys."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The text of the current view, and its measures, on which the effect of keys depends."""

    text: Sequence[Text]
    page: ScreenPage


class Screen:
    """One person at one terminal. A proposal can be approved only after all of it was on the screen."""

    def __init__(self, review: ReviewSession, console: Console) -> None:
        self._review, self._console = review, console
        self._view, self._remark = View(), ""
        self._waiting: Sequence[ProposalLine] = ()
        self._joined: Mapping[str, Sequence[AskerLine]] = {}
        self._drawn: tuple[object, _Drawn] | None = None
        self._stale = False

    async def run(self) -> None:
        """Let the person look and decide until they quit, or the terminal closes."""
        with suppress(EOFError):
            await self._run()

    async def _run(self) -> None:
        await self._reload()
        seen_event = await self._review.state.last_event()
        with _other_screen(self._console), keyboard.single_keys():
            drawn = await self._draw()
            while True:
                for key in await keyboard.keys():
                    self._remark = ""
                    self._view, word = press(self._view, key, drawn.page)
                    if word == "quit":
                        return
                    if word == "trust":
                        await self._trust()
                    elif word == "renew":
                        await self._renew()
                    elif word is not None:
                        await self._decide(word, drawn.page)
                    drawn = await self._draw()
                event = await self._review.state.last_event()
                if event != seen_event:
                    seen_event = event
                    await self._reload()
                    self._stale = True  # a page may have changed, and with it what the open proposal would do
                    drawn = await self._draw()

    async def _reload(self) -> None:
        """Reload what is waiting now, and keep the person at the current proposal."""
        before = self._waiting[self._view.at] if self._view.at < len(self._waiting) else None
        self._waiting = await self._review.waiting()
        self._joined = await self._review.asking(self._waiting)
        places = {proposal.id: at for at, proposal in enumerate(self._waiting)}
        if before is None:
            return
        if before.id in places:
            self._view = replace(self._view, at=places[before.id])
        else:
            if self._view.reading and not self._remark:
                self._remark = "the proposal you were reading is no longer open: it was decided or replaced"
            self._view = View(at=min(self._view.at, max(0, len(self._waiting) - 1)))

    async def _draw(self) -> _Drawn:
        """Draw the view, and note which lines were shown."""
        width, height = self._console.width, max(4, self._console.height - _EDGE)
        proposal = self._waiting[self._view.at] if self._view.reading else None
        asked = self._joined.get(proposal.id, ()) if proposal else ()
        key = (proposal, asked, self._view.whole, width, height)
        # Laying out a long proposal is slow, so it is kept while the person turns pages. The list is cheap.
        if self._stale or self._drawn is None or self._drawn[0] != key or proposal is None:
            before, self._drawn = self._drawn, (key, await self._content(proposal, width, height))
            # Even a new width alone changes the line breaks.
            if before is None or before[0] != key or before[1].text != self._drawn[1].text:
                self._view = replace(self._view, seen=0)
            self._stale = False
        drawn = self._drawn[1]
        self._view = shown(self._view, drawn.page)
        top = self._view.top if proposal else max(0, self._view.at - height + 1)
        self._paint(drawn.text[top : top + height], height, drawn.page)
        return drawn

    async def _content(self, line: ProposalLine | None, width: int, height: int) -> _Drawn:
        count = len(self._waiting)
        if line is None:
            lines = [self._list_line(at, width) for at in range(count)]
            return _Drawn(lines, ScreenPage(count, len(lines), height, folded=False))
        blocks, some_folded = card(await self._review.about(await self._review.one(line.id))), False
        if not self._view.whole:
            blocks, some_folded = folded(blocks)
        text = wrapped(blocks, width)
        return _Drawn(text, ScreenPage(count, len(text), height, folded=some_folded))

    def _list_line(self, at: int, width: int) -> Text:
        proposal, here = self._waiting[at], at == self._view.at
        who = visible(who_asks(proposal, self._joined.get(proposal.id, ())))
        text = Text(f"{'>' if here else ' '} {listed(proposal)}  ({who})", style="reverse" if here else "")
        text.truncate(width, overflow="ellipsis")
        return text

    def _paint(self, lines: Sequence[Text], height: int, page: ScreenPage) -> None:
        count = len(self._waiting)
        head = f"{self._view.at + 1} of {count}" if self._view.reading else f"{count} waiting for a person"
        if self._view.reading and page.lines > page.height:
            head += f"   lines {self._view.top + 1}-{min(page.lines, self._view.top + page.height)} of {page.lines}"
        rest = [Text("")] * (height - len(lines))
        foot = Text(self._remark, style="yellow")
        keys = Text(_CARD_KEYS if self._view.reading else _LIST_KEYS, style="dim")
        screen = [Text(head, style="bold"), *lines, *rest, foot, keys]
        for line in (screen[0], foot, keys):
            line.truncate(self._console.width, overflow="ellipsis")
        self._console.clear()
        self._console.print(Text("\n").join(screen), end="", soft_wrap=True)

    async def _trust(self) -> None:
        """Trust a place that the proposal names, once the person has typed its name."""
        places = places_of(await self._review.one(self._waiting[self._view.at].id))
        if not places:
            self._remark = "this does not need approval because of a place"
            return
        named = ", ".join(map(visible, places))
        with keyboard.lines(), _below(self._console):
            typed = await keyboard.line(f"to trust a place type its name ({named}): ")
        if typed not in places:
            self._remark = "nothing was trusted: that is not one of these places"
            return
        try:
            self._remark = await self._review.trust(typed)
        except KnowledgeError as error:
            self._remark = visible(str(error))

    async def _renew(self) -> None:
        """Propose the change again for the pages as they are now, once the person has typed the beginning of its hash."""
        proposal = self._waiting[self._view.at]
        with keyboard.lines(), _below(self._console):
            confirmed = await confirms(proposal, "renew")
        if not confirmed:
            self._remark = NOT_CONFIRMED
            return
        try:
            made = await self._review.renew(await self._review.one(proposal.id))
            self._remark = visible(f"{made.id} takes its place: read it, then decide")
        except KnowledgeError as error:
            self._remark = visible(str(error))
        await self._reload()

    async def _decide(self, word: Word, page: ScreenPage) -> None:
        proposal = self._waiting[self._view.at]  # with the hash of the proposal that was on the screen
        if word == "approve" and (missing := lacking(self._view, page)):
            self._remark = f"not approved: {missing}"
            return
        if refusal := await self._review.refusal(await self._review.one(proposal.id), word):
            self._remark = refusal
            return
        with keyboard.lines(), _below(self._console):
            note = "" if word == "approve" else await keyboard.line("which changes? " if word == "changes" else "why? ")
            hosts = 1 + len(self._joined.get(proposal.id, ()))
            confirmed = await confirms(proposal, word, hosts=hosts)
        if not confirmed:
            self._remark = NOT_CONFIRMED
            return
        try:
            # Not with the proposal's present hash: if that differs, the person has not seen the present text.
            done = await self._review.decide(proposal, word, note)
            self._remark = visible(ending(done))
        except CannotDecide as error:
            self._remark = visible(str(error))
        await self._reload()


def print_card(console: Console, summary: ProposalSummary) -> None:
    """Print everything about the proposal, block by block, without wrapping lines."""
    for block in card(summary):
        console.print(block.title, style="bold underline", markup=False, emoji=False, soft_wrap=True)
        for line in block.lines:
            console.print(line.text, style=line.style, markup=False, emoji=False, soft_wrap=True)
        console.print()


def wrapped(blocks: Sequence[CardBlock], width: int) -> list[Text]:
    """Return the blocks as lines that fit, each under its heading, with an empty line between blocks."""
    lines: list[Text] = []
    for block in blocks:
        lines += [Text(part, style="bold underline") for part in _cut(block.title, width)]
        lines += [Text(part, style=line.style) for line in block.lines for part in _cut(line.text, width)]
        lines.append(Text(""))
    return lines


def _cut(text: str, width: int) -> list[str]:
    """Return the text in pieces that fit the width, cut after a space if possible; no character is left out."""
    pieces, start = [], 0
    while start < len(text):
        # Only as many characters as can fit: `chop_cells` lays out everything that it gets.
        piece = chop_cells(text[start : start + width], width)[0]
        if start + len(piece) < len(text):
            space = piece.rfind(" ", len(piece) // 2)
            piece = piece[: space + 1] if space >= 0 else piece
        pieces.append(piece)
        start += len(piece)
    return pieces or [""]


@contextmanager
def _below(console: Console) -> Iterator[None]:
    """Show the cursor below, where the person types."""
    console.print()
    console.show_cursor(show=True)
    try:
        yield
    finally:
        console.show_cursor(show=False)


@contextmanager
def _other_screen(console: Console) -> Iterator[None]:
    """Draw on the alternate screen, so that the terminal's previous text returns afterwards."""
    console.set_alt_screen(enable=True)
    console.show_cursor(show=False)
    try:
        yield
    finally:
        console.show_cursor(show=True)
        console.set_alt_screen(enable=False)
