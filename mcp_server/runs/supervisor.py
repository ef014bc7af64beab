"""Leads the runs of one process: those that a call waits for, and those that go on in the background."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from agents.loop.errors import DaySpent, LeftToOthers, NoRoom, NoSuchRun, RunLeft, RunNotThere, RunTaken, TooManyRuns
from agents.loop.executor import Executor
from agents.loop.leader import CANCELLED, CLOSING_S, LEASE_S
from agents.loop.model.errors import ProviderError
from agents.loop.model.ports import ToolDefinition
from agents.loop.processor import Processor
from agents.loop.record.frames import Frame, Header, PlanFrame
from agents.loop.record.interventions import End, end, note_answer
from agents.loop.record.run import Run
from agents.loop.store.ports import Hold, RunStore
from agents.loop.store.retries import outlasting
from agents.loop.tools import Tools
from knowledge.errors import DatabaseUnavailable, KnowledgeError, OutcomeUnknown
from knowledge.state.ports import StateStore
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.policy import Refuse, Trust, decide
from mcp_server.gate.trust.scores import grant_of, trust_record_of
from mcp_server.runs.daily_limit import NO_BOUNDS, Day, DayBounds
from mcp_server.runs.interventions import take_back

if TYPE_CHECKING:
    from mcp_server.gate.caller import Clock
    from mcp_server.models.language_model import ConfiguredModel

logger = logging.getLogger("knowledge_forge.runs")

Progress = Callable[[Run, Frame], Awaitable[None]]

TOOL = "agent_run"
HOLD_S = LEASE_S
"""So long after something was heard of who leads a run another process may take it up."""
MOST_UNDER_WAY = 20
"""Runs of one principal that are neither over nor wait for a person, beyond which its host begins none."""
MOST_ASIDE = 8
"""Runs that one process leads at once in the background. Others wait, for it or for another process."""
BROKEN = "something broke in the server that nobody foresaw; its log may say what"
AGAIN_S, LATEST_AGAIN_S = 30.0, 3600.0
"""So long a run that could not be led on is left alone at first, and at last."""
MOST_TRIES, TRY_S = 20, 0.1
TOLD_S = 2.0
"""So long whoever looks on may take to be told of a step."""


async def unwatched(_run: Run, _frame: Frame) -> None:
    """Look at nothing."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is to be done with a run: by default to lead it as it stands."""

    proposal: str = ""
    became: str = ""


@dataclass(frozen=True, slots=True)
class _ResumeFailure:
    """When a run that could not be led on may be tried again, and how long that took."""

    until: float
    wait_s: float


class Runs:
    """The runs of one knowledge base, as one process begins and leads them.

    `tools` returns what a run may call, `bounds` are those of all runs together. `background` is where runs go on for which nobody
    waits; they outlive this process: another one takes them up. `monotonic` goes on evenly, whatever happens to the time of day.
    `why_cancelled` says what is put on record of a run that is cancelled with who waits for it.
    """

    def __init__(
        self,
        store: RunStore,
        state: StateStore,
        model: ConfiguredModel,
        tools: Callable[[Header], Tools],
        background: TaskGroup,
        *,
        now: Clock,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        bounds: DayBounds = NO_BOUNDS,
    ) -> None:
        self.store, self.model, self.day = store, model, Day(store, bounds, now)
        self._state, self._tools, self._background = state, tools, background
        self._now, self._sleep, self._monotonic = now, sleep, monotonic
        self._ours: dict[str, str] = {}
        self._aside: set[str] = set()
        self._here: set[str] = set()
        self._failed: dict[str, _ResumeFailure] = {}
        self._over: dict[str, anyio.Event] = {}
        self._ended = anyio.Event()
        self.why_cancelled: Callable[[], str] = lambda: CANCELLED
        self._beginning = anyio.Lock()

    @property
    def aside(self) -> frozenset[str]:
        """Return which runs this process leads in the background."""
        return frozenset(self._aside)

    @property
    def here(self) -> frozenset[str]:
        """Return which runs this process leads, or is about to lead in the background."""
        return frozenset(self._here | self._aside)

    async def ended(self) -> None:
        """Return when a run in the background came to where it is not led on from here."""
        await self._ended.wait()

    def offered(self, header: Header) -> Sequence[ToolDefinition]:
        """Return what a run with that header may call when it is led from here."""
        return self._tools(header).definitions()

    # --- for which somebody waits -------------------------------------------------------------------------------------

    async def carry(self, header: Header, *, progress: Progress = unwatched) -> Run:
        """Begin a run and lead it until it is over or waits for a person, and return it. When this is cancelled, so is the run.

        Raises:
            RunExists, TooManyRuns, DaySpent: it is not begun, see `begin_bounded`.
        """
        async with self._cancelled_together(header.id):
            await self.begin_bounded(header)
            return await self._followed_or_led(header.id, _Wish(), progress)

    async def begin_bounded(self, header: Header) -> Run:
        """Put a run on record as `begin` does, if not too many of its principal are under way: each of them costs money.

        Raises:
            RunExists, DaySpent: see `begin`. TooManyRuns: as many of its principal are under way as may be.
        """
        async with self._beginning:
            under_way = await self.store.runs(state="running", principal=header.principal, limit=MOST_UNDER_WAY)
            if len(under_way) >= MOST_UNDER_WAY:
                raise TooManyRuns(MOST_UNDER_WAY)
            return await self.begin(header)

    async def begin(self, header: Header) -> Run:
        """Put a run on record, which this process is to lead next. The very same header again returns the run as it stands.

        Raises:
            RunExists: another run has that id. DaySpent: all runs together took what they may in a day.
        """
        if why := await self.day.spent():
            raise DaySpent(why)
        hold = self._hold()
        try:
            run = await self.store.begin(header, hold)
        except OutcomeUnknown as unknown:
            try:
                run = await outlasting(lambda: self.store.begin(header, hold), self._sleep)
            except DatabaseUnavailable:
                raise unknown from None
        self._ours.setdefault(header.id, hold.by)
        return run

    async def lead(self, run: str, *, progress: Progress = unwatched) -> Run:
        """Lead a run until it is over or waits for a person, and return it. When this is cancelled, so is the run.

        Where another process leads it, this follows. A model that cannot be asked ends it, if nothing of it was led before.

        Raises:
            LeftToOthers: the model cannot be asked from here, and another process may go on with it.
        """
        async with self._cancelled_together(run):
            return await self._followed_or_led(run, _Wish(), progress)

    async def answer(self, run: str, text: str, by: str, *, ask: str = "", progress: Progress = unwatched) -> Run:
        """Answer the question of a run and lead it on, likewise. `ask`: that question, and no other one.

        A run of another model is answered, and left to a process that asks that.

        Raises:
            RunNotThere: it asks nothing, or something else.
            ProviderError: the model cannot be asked. The question stands.
            LeftToOthers: that was found when it was asked. The answer is on record.
        """
        await self.model.provider()
        async with self._cancelled_together(run):
            await self._note_answer(run, text, by, ask)
            return await self._followed_or_led(run, _Wish(), progress)

    async def resume(self, run: str, proposal: str, became: str, *, progress: Progress = unwatched) -> Run:
        """Lead a run on that waited for that proposal, likewise. Where another process was quicker, this follows."""
        async with self._cancelled_together(run):
            return await self._followed_or_led(run, _Wish(proposal=proposal, became=became), progress)

    # --- for which nobody waits ---------------------------------------------------------------------------------------

    def lead_aside(self, run: str) -> bool:
        """Lead a run in the background; return whether it is. If not it is left to the next who has room."""
        return self._start_aside(run, _Wish())

    async def answer_aside(self, run: str, text: str, by: str, *, ask: str = "") -> None:
        """Put the answer to the question of a run on record, and lead it on in the background. `ask`: that question, and no other one.

        Raises:
            RunNotThere: it asks nothing, or something else.
        """
        await self._note_answer(run, text, by, ask)
        self.lead_aside(run)

    def resume_aside(self, run: str, proposal: str, became: str) -> bool:
        """Lead a run on in the background that waited for that proposal; return whether it is."""
        return self._start_aside(run, _Wish(proposal=proposal, became=became))

    def may_try(self, run: str) -> bool:
        """Return whether it is not too soon to lead on a run that could not be led on before."""
        failed = self._failed.get(run)
        return failed is None or failed.until <= self._monotonic()

    async def refused(self, principal: str) -> str:
        """Return why nothing is done for that principal any more; "" where it may still read."""
        user, _, host = principal.rpartition("@")
        trust_record = await trust_record_of(self._state, Principal(user, host), now=self._now())
        decision = decide(grant_of(trust_record), TOOL, Trust.READ)
        return decision.why if isinstance(decision, Refuse) else ""

    # --- from outside -------------------------------------------------------------------------------------------------

    async def cancel(self, run: str, why: str) -> Run:
        """End a run, whoever leads it; they notice with their next step. One that is over stays as it is.

        The proposal that it waits for is withdrawn: nobody is to agree to an act of a run that is not there any more.
        """
        ended = await self.end(run, "cancelled", why)
        if ended.state == "cancelled":
            await take_back(self._state.trust, ended, now=self._now)
        return ended

    async def end(self, run: str, signal: End, why: str) -> Run:
        """End a run so, whoever leads it."""
        ended, _ = await end(self.store, run, signal, why, now=self._now, chance=_chance)
        if run in self._over:
            self._over[run].set()
        return ended

    async def followed(self, run: str, start: int = 0) -> AsyncIterator[tuple[Run, Frame]]:
        """Yield the frames of a run from that number on, as they come on record, until it is over or waits for a person."""
        while True:
            seen = await self._state.last_event()
            there = await self.store.run(run)
            for frame in there.frames[start:]:
                yield there, frame
            start = there.count
            if there.state != "running":
                return
            await self._state.changed(seen)

    # --- how ----------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _cancelled_together(self, run: str) -> AsyncIterator[None]:
        """Record that the run was cancelled when what is inside is."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            recorded = False
            with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                await self._cancel_unwanted(run)
                recorded = True
            if not recorded:
                self._background.start_soon(self._cancel_later, run)
            raise

    async def _cancel_unwanted(self, run: str) -> None:
        with suppress(NoSuchRun):  # it was not begun
            if (await self.store.run(run)).state in ("running", "cancelled"):
                await self.cancel(run, self.why_cancelled())

    async def _cancel_later(self, run: str) -> None:
        """Cancel a run for which nobody waits any more as soon as the database can be used again."""
        try:
            await outlasting(lambda: self._cancel_unwanted(run), self._sleep)
        except KnowledgeError as error:
            logger.warning("run %s, for which nobody waits any more, cannot be cancelled now: %s", run, error)

    async def _followed_or_led(self, run: str, wish: _Wish, progress: Progress) -> Run:
        """Return the run when it is over or waits for a person.

        Raises:
            RunLeft: the database was away for too long. Somebody goes on with the run when it is back.
        """
        try:
            told = _FrameListeners(progress, (await outlasting(lambda: self.store.run(run), self._sleep)).count)
            return await outlasting(lambda: self._through(run, wish, told), self._sleep)
        except DatabaseUnavailable as error:
            raise RunLeft(run, error.reason) from error

    async def _through(self, run: str, wish: _Wish, told: _FrameListeners) -> Run:
        while True:
            try:
                return await self._led(run, wish, told, outlives=False)
            except RunTaken:
                with anyio.move_on_after(HOLD_S / 2):  # whoever leads it may die
                    async for at, frame in self.followed(run, told.count):
                        await told(at, frame)
                    await self._sleep(TRY_S)  # it waits for a person, and is still held by who led it up to there
            except RunNotThere:
                if not wish.proposal:
                    raise
                wish = _Wish()  # somebody was quicker: it goes on, or is over
            except ProviderError as error:
                if (await self.store.run(run)).plan is not None:
                    raise LeftToOthers(run, str(error)) from error
                return await self.end(run, "provider_failed", str(error))
            except KnowledgeError:
                raise
            except Exception:
                logger.exception("run %s cannot be led on", run)
                return await self.end(run, "failed", BROKEN)

    async def _note_answer(self, run: str, text: str, by: str, ask: str) -> None:
        header = (await self.store.run(run)).header
        for _ in range(MOST_TRIES):
            hold = self._hold(HOLD_S if self._has_model_of(header) else 0.0)
            with suppress(RunTaken):
                await note_answer(self.store, run, text, by, ask=ask, hold=hold, chance=_chance)
                self._ours[run] = hold.by
                return
            await self._sleep(TRY_S)  # somebody else answers it at this moment
        raise RunTaken(run)

    def _start_aside(self, run: str, wish: _Wish) -> bool:
        if run in self._aside:
            return True
        if len(self._aside) >= MOST_ASIDE:
            self._background.start_soon(self._left_to_others, run)
            return False
        self._aside.add(run)
        self._background.start_soon(self._in_background, run, wish)
        return True

    async def _in_background(self, run: str, wish: _Wish) -> None:
        try:
            await self._tried(run, wish)
            self._failed.pop(run, None)
        except (RunTaken, RunNotThere, NoSuchRun):
            pass  # somebody else was quicker
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                await self._let_go(run)
                await self._tell(run)
            raise
        except KnowledgeError as error:
            logger.warning("run %s cannot be led on now: %s", run, error)
            self._try_later(run)
            with suppress(KnowledgeError):
                await self._tell(run)
        except Exception:
            logger.exception("run %s cannot be led on", run)
            self._try_later(run)
        finally:
            self._aside.discard(run)
            self._ended.set()
            self._ended = anyio.Event()

    async def _tried(self, run: str, wish: _Wish) -> None:
        try:
            await self._led(run, wish, unwatched, outlives=True)
        except KnowledgeError:
            raise
        except Exception:
            logger.exception("run %s cannot be led on", run)
            await self.end(run, "failed", BROKEN)

    async def _left_to_others(self, run: str) -> None:
        try:
            await self._let_go(run)
        except KnowledgeError as error:
            logger.warning("run %s is held for a while yet: %s", run, error)

    async def _let_go(self, run: str) -> None:
        """Hold the run no longer that this process was to lead, and tell others that may."""
        if by := self._ours.pop(run, ""):
            await self.store.release(run, by)
            await self._tell(run)

    async def _tell(self, run: str) -> None:
        """Tell other processes that a run may be led."""
        await self._state.publish("run", [run])

    def _try_later(self, run: str) -> None:
        before = self._failed.get(run)
        wait_s = min(2 * before.wait_s, LATEST_AGAIN_S) if before else AGAIN_S
        self._failed[run] = _ResumeFailure(self._monotonic() + wait_s, wait_s)

    async def _led(self, run: str, wish: _Wish, progress: Progress, *, outlives: bool) -> Run:
        there = await self.store.run(run)
        if there.over:
            self._ours.pop(run, None)
            return there
        if why := await self.refused(there.header.principal):
            self._ours.pop(run, None)
            return await self.cancel(run, why)  # before a model is told anything more
        if not self._has_model_of(there.header):
            self._ours.pop(run, None)
            return there  # a person may have agreed to its model, and to no other
        if await self.day.reached():
            await self._let_go(run)
            return there  # what a person answered or decided is not to end for it: it goes on when there is room
        if there.state != "running" and not wish.proposal:
            return there
        executor = await self._executor(there, progress, outlives=outlives)
        first = run not in self._here
        self._here.add(run)
        try:
            led = await self._as_far_as_there_is_room(executor, run, wish)
            if led.over:  # also over a call that proposed something
                await take_back(self._state.trust, led, now=self._now)
            return led
        finally:
            if first:
                self._here.discard(run)
                self._over.pop(run, None)

    async def _as_far_as_there_is_room(self, executor: Executor, run: str, wish: _Wish) -> Run:
        try:
            if wish.proposal:
                return await executor.resume(run, wish.proposal, wish.became)
            return await executor.take_up(run, self._ours.pop(run, ""))
        except NoRoom:
            return await self.store.run(run)

    async def _nap(self, run: str, seconds: float) -> None:
        """Wait for so long, or until the run is ended from this process."""
        with anyio.move_on_after(seconds):
            await self._over.setdefault(run, anyio.Event()).wait()

    def _permitted(self, progress: Progress) -> Progress:
        """Return what tells of each step, and ends the run when nothing is done for its principal any more."""

        async def told(run: Run, frame: Frame) -> None:
            await progress(run, frame)
            if isinstance(frame, PlanFrame) and run.state == "running":
                with suppress(KnowledgeError):  # the gate decides on each call in any case
                    if why := await self.refused(run.header.principal):
                        await self.cancel(run.id, why)

        return told

    async def _executor(self, run: Run, progress: Progress, *, outlives: bool) -> Executor:
        return Executor(
            self.store,
            Processor(await self.model.provider(), self.model.cost),
            self._tools(run.header),
            now=_steady(max(self._now(), run.moved_at), self._monotonic),
            sleep=self._sleep,
            chance=_chance,
            progress=self._permitted(progress),
            lease_s=HOLD_S,
            outlives=outlives,
            wall=self._now,
            nap=self._nap,
            cancelled=self.why_cancelled,
            day=lambda run: outlasting(lambda: self.day.full_for(run), self._sleep),
        )

    def _has_model_of(self, header: Header) -> bool:
        """Return whether the run is one that is led from here; else a process that asks its model goes on with it."""
        return header.model in ("", self.model.name)

    def _hold(self, seconds: float = HOLD_S) -> Hold:
        """Return the hold of a run that this process leads next."""
        now = self._now()
        return Hold(f"next-{_chance()}", now, now + timedelta(seconds=seconds))


class _FrameListeners:
    """Tells whoever looks on of each frame once. What goes wrong with that, and who does not listen, is no matter of the run."""

    def __init__(self, progress: Progress, count: int) -> None:
        self._progress, self.count = progress, count

    async def __call__(self, run: Run, frame: Frame) -> None:
        if frame.number < self.count:
            return
        self.count = frame.number + 1
        if self._progress is unwatched:
            return
        try:
            with anyio.move_on_after(TOLD_S) as telling:
                await self._progress(run, frame)
        except Exception as error:  # noqa: BLE001 - the host may be gone, in any way that its transport knows
            logger.debug("nobody was told of a step of run %s: %s", run.id, type(error).__name__)
            self._progress = unwatched
        if telling.cancelled_caught:
            self._progress = unwatched


def _chance() -> str:
    """Return hexadecimal digits that nobody guesses."""
    return secrets.token_hex(8)


def _steady(at: datetime, monotonic: Callable[[], float]) -> Clock:
    """Return a clock that shows that now, and goes on evenly, even when the time of day is set."""
    since = monotonic()
    return lambda: at + timedelta(seconds=monotonic() - since)
