"""Leading a run from a terminal: each step is shown as soon as it is on record, and a person who is there answers and decides."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import anyio

from agents.loop.errors import RunNotThere
from agents.loop.model.errors import ProviderError
from knowledge.errors import StorageError
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.runs.view import (
    answer_lines,
    doing,
    end_line,
    frame_line,
    head_line,
    question_lines,
    step_lines,
    style_of,
    ways_on,
)
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import stderr_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import json_text, say
from mcp_server.gate.host_registration import os_user
from mcp_server.toolsets.runs.sentences import ended_with

if TYPE_CHECKING:
    from rich.console import Console

    from agents.loop.leader import Progress
    from agents.loop.record.frames import Frame
    from agents.loop.record.run import Run
    from knowledge.state.ports import StateStore
    from mcp_server.app.composition import App
    from mcp_server.approvals.summary import Address
    from mcp_server.gate.taint import Taints

ACHIEVED, NOT_ACHIEVED, WAITS = 0, 1, 3
"""Exit codes: the goal is achieved; it failed, gave up or was cancelled; a person is to say something first."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a program."""
_SIGNALS: ContextVar[Sequence[int]] = ContextVar("_SIGNALS", default=())
"""Which signals but Ctrl-C's the command got."""


class NoModel(WronglyAsked):
    """No language model is asked with these settings; the message says which variables name one."""

    def __init__(self, settings: Settings) -> None:
        if settings.model is None:
            told = "no language model is configured: set FORGE_MODEL=VENDOR:MODEL, or pass --provider VENDOR:MODEL"
            keys = "ANTHROPIC_API_KEY or OPENAI_API_KEY"
        else:
            told = f"{visible(str(settings.model))} cannot be asked"
            keys = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}[settings.model.company]
        own = "" if keys == "ANTHROPIC_API_KEY" else "; your own server is set with OPENAI_BASE_URL and may need no key"
        super().__init__(f"{told}; its key is read from {keys}, or from FORGE_MODEL_KEY_FILE{own}")


class RunWatch:
    """What a person, or a program, sees of a run while it is led: each of its steps once, from number `start` on."""

    def __init__(self, *, as_json: bool, start: int = 0) -> None:
        self.as_json, self.start = as_json, start
        self._broken: OSError | None = None
        self._console: Console | None = stderr_console() if not as_json and sys.stderr.isatty() else None
        self._say_doing: Callable[[str], None] = lambda _: None

    async def led(self, lead: Callable[[Progress], Awaitable[Run]]) -> None:
        """Have the run led, and show its steps. When nobody reads them any more it is cancelled.

        Raises:
            OSError: nobody reads on.
        """
        with anyio.CancelScope() as scope:

            async def see(run: Run, frame: Frame) -> None:
                try:
                    self.show(run, frame.number + 1)
                except OSError as error:
                    self._broken = error
                    scope.cancel()

            with self._live():
                run = await lead(see)
            self.show(run, run.count)
        if self._broken:
            raise self._broken

    def why_ended(self) -> str:
        """Return why what is led does not go on, when it is cancelled."""
        if self._broken:
            return "nobody was reading its steps"
        ended_by = [signal.Signals(number).name for number in _SIGNALS.get()]
        return f"{ended_by[0] if ended_by else 'Ctrl-C'} stopped the command that ran it"

    def show(self, run: Run, end: int) -> None:
        """Show what was not shown yet of the steps before number `end`, whichever process took them.

        Raises:
            OSError: nobody reads on.
        """
        for frame in run.frames[self.start : end]:
            self._show(frame)
        self.start = max(self.start, end)
        self._say_doing(doing(run))

    def _show(self, frame: Frame) -> None:
        if self.as_json:
            print(frame_line(frame), flush=True)
            return
        for line in step_lines(frame):
            if self._console:
                self._console.print(line, style=style_of(frame) or None, emoji=False, soft_wrap=True)
            else:
                say(line)

    @contextmanager
    def _live(self) -> Iterator[None]:
        """Say below the steps, at a terminal, what goes on."""
        if self._console is None:
            yield
            return
        from rich.text import Text

        with self._console.status(Text("asking the model")) as status:
            self._say_doing = lambda words: status.update(Text(words))
            try:
                yield
            finally:
                self._say_doing = lambda _: None


@dataclass(frozen=True, slots=True)
class Lead:
    """Leads runs in this process. `asks`: a person is there who can be asked."""

    app: App
    watch: RunWatch
    asks: bool

    async def through(self, run: Run, *, answer: str = "") -> int:
        """Lead the run until it is over, or waits for somebody who is not here; tell how it ended, and return the exit code.

        `answer` is a person's to what it asks. Interrupted while it is led it is cancelled; while it waits for a person it goes
        on waiting.

        Raises:
            RunNotThere: somebody else answered.
        """
        if not self.watch.as_json:
            say(head_line(run))
        try:
            if answer:
                await self._answered(run, answer)
            ended = await self._on(run.id)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(OSError, StorageError):
                say("")  # below what was being typed, or said
                _say_standing(await self.app.services.runs.store.run(run.id))
            raise
        return await self._concluded(ended)

    async def _on(self, run_id: str) -> Run:
        store = self.app.services.runs.store
        while True:
            run = await store.run(run_id)
            if run.over or not await self._moved(run):
                self.watch.show(run, run.count)
                return run

    async def _moved(self, run: Run) -> bool:
        """Lead the run on from where it stands; False where it waits for somebody who is not here, or for another day."""
        runs = self.app.services.runs
        if why := await runs.day.spent():
            say(f"waiting: {why}")
            return False
        with suppress(RunNotThere):  # somebody else was faster: it is looked at again
            if run.state == "running":
                await self.watch.led(lambda see: runs.lead(run.id, progress=see))
            elif run.ask is not None:
                text = await self._answer(run)
                if not text:
                    return False
                await self._answered(run, text)
            else:
                became = await self._became(run)
                if became is None:
                    return False
                await self.watch.led(lambda see: runs.resume(run.id, run.proposal, became, progress=see))
        return True

    async def _answered(self, run: Run, text: str) -> None:
        """Answer what the run asks as it was shown, and lead it on."""
        runs, ask = self.app.services.runs, run.ask.id if run.ask else ""
        await self.watch.led(lambda see: runs.answer(run.id, text, os_user(), ask=ask, progress=see))

    async def _answer(self, run: Run) -> str:
        """Return what the person answers; "" if nobody does."""
        if not self.asks:
            return ""
        say("")
        for line in question_lines(run):
            say(line)
        return await keyboard.line("your answer (empty: keep waiting): ")

    async def _became(self, run: Run) -> str | None:
        """Return what became of the proposal that the run waits for, once it is decided; None if nobody does."""
        from mcp_server.cli.runs.decision import decided
        from mcp_server.runs.resume import became

        while True:
            told = await became(self.app.services, run)
            if told is not None or not self.asks or not await decided(self.app, run.proposal):
                return told

    async def _concluded(self, run: Run) -> int:
        if self.watch.as_json:
            services = self.app.services
            print(await answer_line(run, services.state, services.taints, services.review_address), flush=True)
        else:
            for line in answer_lines(run):
                print(line)
            _say_standing(run)
        return code_of(run)


async def answer_line(run: Run, state: StateStore, taints: Taints, page: Address) -> str:
    """Return what `agent_run` would answer as JSON in a line of ASCII, with all of the text and without the advice to a model."""
    from mcp_server.toolsets.runs.handlers import answer_of

    answer = asdict(await answer_of(state, taints, run, page))
    told = {name: value for name, value in answer.items() if name != "note"}
    return json_text({"type": "answer", **told, "text": ended_with(run)})


def code_of(run: Run) -> int:
    """Return the exit code that says how the run stands."""
    if run.state in ("asking", "suspended", "running"):
        return WAITS
    return ACHIEVED if run.response is not None and run.response.goal_achieved else NOT_ACHIEVED


def _say_standing(run: Run) -> None:
    for line in (end_line(run), *ways_on(run)):
        say(line)


@asynccontextmanager
async def leading(settings: Settings, *, start: int = 0) -> AsyncIterator[Lead]:
    """Yield what leads runs with the model that the settings name. An error in there comes out as itself.

    Raises:
        NoModel: they name none.
        WronglyAsked: it cannot be asked as it is configured.
    """
    from mcp_server.app.composition import open_app

    if settings.provider is None:
        raise NoModel(settings)
    asks = keyboard.is_terminal() and not settings.json
    try:
        async with open_app(settings, announcing=False) as app:
            await _askable(app)
            watch = RunWatch(as_json=settings.json, start=start)
            app.services.runs.why_cancelled = watch.why_ended
            yield Lead(app, watch, asks)
    except BaseExceptionGroup as group:
        raise (group.exceptions[0] if len(group.exceptions) == 1 else group) from None


async def _askable(app: App) -> None:
    """Return if the model can be asked as it is configured: what it lacks is told before anything is on record.

    Raises:
        WronglyAsked: it cannot.
    """
    try:
        await app.services.model.provider()
    except ProviderError as error:
        raise WronglyAsked(str(error)) from error


def until_signalled(work: Callable[[], int]) -> int:
    """Return what `work` does. The signals that end programs interrupt it as Ctrl-C does: what it leads is recorded as ended."""
    got: list[int] = []
    _SIGNALS.set(got)

    def end(number: int, _frame: object) -> None:
        got.append(number)
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        return work()
    # What `nohup` has ignored stays ignored.
    heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in heard}
    # A script's shell has it ignored for what runs in the background, and then no signal would end the command.
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return work()
    except KeyboardInterrupt:
        if not got:
            raise
        return SIGNALLED + got[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
