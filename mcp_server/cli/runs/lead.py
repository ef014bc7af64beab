"""Leads a run from a terminal: each step is shown as soon as it is recorded, and a person at the terminal answers and decides."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import anyio
from rich.console import Console
from rich.text import Text

from agents.loop.errors import RunNotThere
from agents.loop.model.errors import ProviderError
from knowledge.errors import StorageError
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LanguageModelName, model_name
from mcp_server.cli.app import opened_app
from mcp_server.cli.runs.view import (
    answer_lines,
    doing,
    end_line,
    frame_line,
    head_line,
    next_steps,
    question_lines,
    step_lines,
    style_of,
)
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import stderr_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import json_text, say
from mcp_server.gate.host_registration import os_user
from mcp_server.presenters.run import present

if TYPE_CHECKING:
    from agents.loop.leader import Progress
    from agents.loop.record.frames import Frame
    from agents.loop.record.run import Run
    from knowledge.state.ports import StateStore
    from mcp_server.app.composition import App
    from mcp_server.approvals.summary import Address
    from mcp_server.gate.taint import Taints

ACHIEVED, NOT_ACHIEVED, WAITS = 0, 1, 3
"""Exit codes: the goal was achieved; the run failed, gave up or was cancelled; it waits for a person."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
SIGNALLED = 128
"""Shells add this to the number of the signal that ended a program."""
_SIGNALS: ContextVar[Sequence[int]] = ContextVar("_SIGNALS", default=())
"""The signals, besides that of Ctrl-C, that the command received."""


def add_provider(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a model; settings read it like FORGE_MODEL."""
    # SUPPRESS: without the option, the arguments have no such name, and FORGE_MODEL counts.
    parser.add_argument(
        "--provider",
        dest="model",
        metavar="VENDOR:MODEL",
        type=provider,
        default=argparse.SUPPRESS,
        help="the model to use (default: FORGE_MODEL)",
    )


def provider(text: str) -> LanguageModelName:
    """Return the model in the option."""
    try:
        return model_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class NoModel(WronglyAsked):
    """The settings name no language model that can be asked; the message names the variables to set."""

    def __init__(self, settings: Settings) -> None:
        if settings.model is None:
            problem = "no language model is configured: set FORGE_MODEL=VENDOR:MODEL, or pass --provider VENDOR:MODEL"
            keys = "ANTHROPIC_API_KEY or OPENAI_API_KEY"
        else:
            problem = f"{visible(str(settings.model))} cannot be asked"
            keys = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}[settings.model.company]
        own = "" if keys == "ANTHROPIC_API_KEY" else "; for your own server set OPENAI_BASE_URL; it may need no key"
        super().__init__(f"{problem}; its key is read from {keys}, or from FORGE_MODEL_KEY_FILE{own}")


class RunWatch:
    """Shows a run while it is in progress, to a person or a program: each step once, from number `start` on."""

    def __init__(self, *, as_json: bool, start: int = 0) -> None:
        self.as_json, self.start = as_json, start
        self._broken: OSError | None = None
        self._console: Console | None = stderr_console() if not as_json and sys.stderr.isatty() else None
        self._say_doing: Callable[[str], None] = lambda _: None

    async def led(self, lead: Callable[[Progress], Awaitable[Run]]) -> None:
        """Lead the run and show its steps. If the output's reader has gone away, the run is cancelled.

        Raises: OSError: the reader has gone away.
        """
        with anyio.CancelScope() as scope:

            async def see(run: Run, frame: Frame) -> None:
                try:
                    self.show(run, frame.number + 1)
                except OSError as error:
                    # Not raised here: the supervisor ignores errors while it reports a step.
                    self._broken = error
                    scope.cancel()

            with self._live():
                run = await lead(see)
            self.show(run, run.count)
        if self._broken:
            raise self._broken

    def why_ended(self) -> str:
        """Return the reason to record if the run is cancelled."""
        if self._broken:
            return "nobody was reading its steps"
        ended_by = [signal.Signals(number).name for number in _SIGNALS.get()]
        return f"{ended_by[0] if ended_by else 'Ctrl-C'} stopped the command that ran it"

    def show(self, run: Run, end: int) -> None:
        """Show the new steps before number `end`, whichever process took them. Raises: OSError: the output's reader has gone away."""
        for frame in run.frames[self.start : end]:
            if self.as_json:
                print(frame_line(frame), flush=True)
                continue
            for line in step_lines(frame):
                if self._console:
                    self._console.print(line, style=style_of(frame) or None, emoji=False, soft_wrap=True)
                else:
                    say(line)
        self.start = max(self.start, end)
        self._say_doing(doing(run))

    @contextmanager
    def _live(self) -> Iterator[None]:
        """At a terminal, show below the steps what the run is doing now."""
        if self._console is None:
            yield
            return
        # As Text: rich would read markup in a string, and the name of a tool may contain some.
        with self._console.status(Text("asking the model")) as status:
            self._say_doing = lambda words: status.update(Text(words))
            try:
                yield
            finally:
                self._say_doing = lambda _: None


@dataclass(frozen=True, slots=True)
class Lead:
    """Leads runs in this process. `asks`: there is a person at the terminal."""

    app: App
    watch: RunWatch
    asks: bool

    async def through(self, run: Run, *, answer: str = "") -> int:
        """Lead the run until it ends or waits for a person who is not at this terminal; print how it ended and return the exit code.

        `answer` is the person's answer to its question. If this is interrupted while the run is led, the run is
        cancelled; while it waits for a person, it keeps waiting.

        Raises:
            RunNotThere: somebody else answered.
        """
        if not self.watch.as_json:
            say(head_line(run))
        store = self.app.services.runs.store
        try:
            if answer:
                await self._answer(run, answer)
            while True:
                run = await store.run(run.id)
                if run.over or not await self._move(run):
                    break
            self.watch.show(run, run.count)
        except BaseException:
            # Shielded, because this may be cancelled by Ctrl-C.
            with anyio.CancelScope(shield=True), suppress(OSError, StorageError):
                say("")  # below the half-written line
                _say_end(await store.run(run.id))
            raise
        if self.watch.as_json:
            services = self.app.services
            print(await answer_line(run, services.state, services.taints, services.review_address), flush=True)
        else:
            print_end(run)
        return code_of(run)

    async def _move(self, run: Run) -> bool:
        """Lead the run from its present state; return False if it waits for another day, or for a person who is not here."""
        runs = self.app.services.runs
        if why := await runs.day.spent():
            say(f"waiting: {why}")
            return False
        with suppress(RunNotThere):  # somebody else was faster: the next round looks again
            if run.state == "running":
                await self.watch.led(lambda see: runs.lead(run.id, progress=see))
            elif run.ask is not None:
                if not self.asks:
                    return False
                say("")
                for line in question_lines(run):
                    say(line)
                text = await keyboard.line("your answer (empty: keep waiting): ")
                if not text:
                    return False
                await self._answer(run, text)
            else:
                became = await self._became(run)
                if became is None:
                    return False
                await self.watch.led(lambda see: runs.resume(run.id, run.proposal, became, progress=see))
        return True

    async def _answer(self, run: Run, text: str) -> None:
        """Answer the question that the person saw, and lead the run."""
        runs, ask = self.app.services.runs, run.ask.id if run.ask else ""
        await self.watch.led(lambda see: runs.answer(run.id, text, os_user(), ask=ask, progress=see))

    async def _became(self, run: Run) -> str | None:
        """Return the outcome of the run's proposal once it is decided; None if nobody decides."""
        from mcp_server.cli.runs.decision import decided
        from mcp_server.runs.resume import became

        while True:
            outcome = await became(self.app.services, run)
            if outcome is not None or not self.asks or not await decided(self.app, run.proposal):
                return outcome


async def answer_line(run: Run, state: StateStore, taints: Taints, page: Address) -> str:
    """Return the answer of `agent_run` as JSON in a line of ASCII, with all of the text and without the note to a model."""
    from mcp_server.toolsets.runs.handlers import answer_of

    answer = asdict(await answer_of(state, taints, run, page))
    del answer["note"]
    return json_text({"type": "answer", **answer, "text": present(run).text})


def code_of(run: Run) -> int:
    """Return the exit code for the state of the run."""
    if run.state in ("asking", "suspended", "running"):
        return WAITS
    return ACHIEVED if run.response is not None and run.response.goal_achieved else NOT_ACHIEVED


def print_end(run: Run) -> None:
    """Print the answer on standard output, and below it on standard error how the run ended or what it waits for."""
    for line in answer_lines(run):
        print(line)
    _say_end(run)


def _say_end(run: Run) -> None:
    for line in (end_line(run), *next_steps(run)):
        say(line)


@asynccontextmanager
async def leading(settings: Settings, *, start: int = 0) -> AsyncIterator[Lead]:
    """Yield the supervisor of runs with the model in the settings. An error inside is raised as itself.

    Raises:
        NoModel: they name none.
        WronglyAsked: the model cannot be asked with its present settings.
    """
    if settings.provider is None:
        raise NoModel(settings)
    asks = keyboard.is_terminal() and not settings.json
    async with opened_app(settings, indexing=True) as app:
        try:
            await app.services.model.provider()  # before anything is on record
        except ProviderError as error:
            raise WronglyAsked(str(error)) from error
        watch = RunWatch(as_json=settings.json, start=start)
        app.services.runs.why_cancelled = watch.why_ended
        yield Lead(app, watch, asks)


def until_signalled(work: Callable[[], int]) -> int:
    """Return the result of `work`. Signals that end programs interrupt it like Ctrl-C, so that the run is recorded as cancelled."""
    got: list[int] = []
    _SIGNALS.set(got)

    def end(number: int, _frame: object) -> None:
        got.append(number)
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        return work()
    # A signal that `nohup` ignores stays ignored.
    heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in heard}
    # A script's shell ignores SIGINT in background commands. The other signals raise SIGINT, and would then end nothing.
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
