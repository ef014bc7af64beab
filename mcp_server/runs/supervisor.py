"""Leads the runs of one process: those that a call waits for, and those in the background."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
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
"""Another process may resume a run whose process was silent for this long."""
MOST_UNDER_WAY = 20
"""The most runs of one principal that are in progress at once; runs that wait for a person do not count."""
MOST_ASIDE = 8
"""The most runs that one process leads in the background at once. Others wait for this or another process."""
BROKEN = "something unexpected failed in the server; its log may say what"
AGAIN_S, LATEST_AGAIN_S = 30.0, 3600.0
"""How long a run that could not be led is left alone, at first and at most."""
MOST_TRIES, TRY_S = 20, 0.1
"""How often this process tries to record an answer while another one holds the run, and the wait between two tries."""
TOLD_S = 2.0
"""How long a host may take to accept the report of a step."""


async def unwatched(_run: Run, _frame: Frame) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class _Resumption:
    """The proposal that a run is resumed with, and its outcome; empty if the run waits for no proposal."""

    proposal: str = ""
    became: str = ""


@dataclass(frozen=True, slots=True)
class _ResumeFailure:
    """When a run that could not be led may be tried again, and the length of that wait, which doubles after each failure."""

    until: float
    wait_s: float


class Runs:
    """The runs of one knowledge base, as one process begins and leads them.

    `tools` returns the tools of a run, `bounds` are the limits of all runs together. `background` is the task group of the runs that
    no call waits for; they outlive this process, because another one continues them. `monotonic` is a clock that cannot
    be set. `why_cancelled` returns the recorded reason for a run that is cancelled together with the call that waits
    for it.
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
        # The holds of runs that this process began or answered, and leads next.
        self._holds: dict[str, str] = {}
        self._aside: set[str] = set()
        self._here: set[str] = set()
        self._failed: dict[str, _ResumeFailure] = {}
        self._over: dict[str, anyio.Event] = {}
        self._ended = anyio.Event()
        self.why_cancelled: Callable[[], str] = lambda: CANCELLED
        self._beginning = anyio.Lock()

    @property
    def aside(self) -> frozenset[str]:
        """The runs that this process leads in the background."""
        return frozenset(self._aside)

    @property
    def here(self) -> frozenset[str]:
        """The runs that this process leads, or is about to lead in the background."""
        return frozenset(self._here | self._aside)

    async def ended(self) -> None:
        """Return when this process stops leading one of the runs in the background."""
        await self._ended.wait()

    def offered(self, header: Header) -> Sequence[ToolDefinition]:
        """Return the tools that this process offers to a run with that header."""
        return self._tools(header).definitions()

    # --- runs that a call waits for -----------------------------------------------------------------------------------

    async def carry(self, header: Header, *, progress: Progress = unwatched) -> Run:
        """Begin a run, lead it until it is over or waits for a person, and return it. When this is cancelled, so is the run.

        Raises:
            RunExists, TooManyRuns, DaySpent: it is not begun, see `begin_bounded`.
        """
        async with self._cancelled_together(header.id):
            await self.begin_bounded(header)
            return await self._lead_or_follow(header.id, _Resumption(), progress)

    async def begin_bounded(self, header: Header) -> Run:
        """Begin a run as `begin` does, if its principal does not have too many in progress: each of them costs money.

        Raises:
            RunExists, DaySpent: see `begin`. TooManyRuns: its principal has as many in progress as are allowed.
        """
        async with self._beginning:  # or two calls at once would each see room for one more
            under_way = await self.store.runs(state="running", principal=header.principal, limit=MOST_UNDER_WAY)
            if len(under_way) >= MOST_UNDER_WAY:
                raise TooManyRuns(MOST_UNDER_WAY)
            return await self.begin(header)

    async def begin(self, header: Header) -> Run:
        """Record a run, which this process leads next. The same header again returns the run as it is now.

        Raises:
            RunExists: another run has that id. DaySpent: all runs together reached their daily limit.
        """
        if why := await self.day.spent():
            raise DaySpent(why)
        hold = self._hold()
        try:
            run = await self.store.begin(header, hold)
        except OutcomeUnknown as unknown:
            # The reply was lost. Asking again is safe: the same header with the same hold is the same run.
            try:
                run = await outlasting(lambda: self.store.begin(header, hold), self._sleep)
            except DatabaseUnavailable:
                raise unknown from None
        self._holds.setdefault(header.id, hold.by)
        return run

    async def lead(self, run: str, *, progress: Progress = unwatched) -> Run:
        """Lead a run until it is over or waits for a person, and return it. When this is cancelled, so is the run.

        If another process leads it, follow that process. If the model cannot be asked, the run ends, unless it has
        steps already.

        Raises:
            LeftToOthers: this process cannot ask the model, and another one may continue the run.
        """
        async with self._cancelled_together(run):
            return await self._lead_or_follow(run, _Resumption(), progress)

    async def answer(self, run: str, text: str, by: str, *, ask: str = "", progress: Progress = unwatched) -> Run:
        """Answer the question of a run, and lead it as `lead` does. `ask`: the id of the question that is answered.

        A run with another model is answered, and left to a process with that model.

        Raises:
            RunNotThere: it has no open question, or a different one.
            ProviderError: the model cannot be asked. The question stays open.
            LeftToOthers: the model turned out to be out of reach later. The answer is on record.
        """
        # Before the answer is recorded, so that on failure the question stays open.
        await self.model.provider()
        async with self._cancelled_together(run):
            await self._note_answer(run, text, by, ask)
            return await self._lead_or_follow(run, _Resumption(), progress)

    async def resume(self, run: str, proposal: str, became: str, *, progress: Progress = unwatched) -> Run:
        """Resume a run that waited for that proposal, and lead it as `lead` does.

        If another process was faster, follow that process. `became` is the outcome of the proposal, in words for the
        run.
        """
        async with self._cancelled_together(run):
            return await self._lead_or_follow(run, _Resumption(proposal, became), progress)

    # --- runs in the background ---------------------------------------------------------------------------------------

    def lead_aside(self, run: str) -> bool:
        """Lead a run in the background; return False if there is no room, so that another process leads it."""
        return self._start_aside(run, _Resumption())

    async def answer_aside(self, run: str, text: str, by: str, *, ask: str = "") -> None:
        """Record the answer to the question of a run, and lead it in the background. `ask`: the id of the question that is answered.

        Raises:
            RunNotThere: it has no open question, or a different one.
        """
        await self._note_answer(run, text, by, ask)
        self.lead_aside(run)

    def resume_aside(self, run: str, proposal: str, became: str) -> bool:
        """Resume a run that waited for that proposal, in the background; return False if there is no room, as `lead_aside` does."""
        return self._start_aside(run, _Resumption(proposal, became))

    def may_try(self, run: str) -> bool:
        """Return whether a run that could not be led may now be tried again."""
        failed = self._failed.get(run)
        return failed is None or failed.until <= self._monotonic()

    async def refused(self, principal: str) -> str:
        """Return why nothing more is done for that principal; "" if it may still read."""
        user, _, host = principal.rpartition("@")
        trust_record = await trust_record_of(self._state, Principal(user, host), now=self._now())
        decision = decide(grant_of(trust_record), TOOL, Trust.READ)
        return decision.why if isinstance(decision, Refuse) else ""

    # --- from outside -------------------------------------------------------------------------------------------------

    async def cancel(self, run: str, why: str) -> Run:
        """Cancel a run, whichever process leads it; that process notices with its next step. A run that has ended stays unchanged.

        The proposal that it waits for is withdrawn: nobody should approve an act of a run that no longer exists.
        """
        ended = await self.end(run, "cancelled", why)
        if ended.state == "cancelled":
            await take_back(self._state.trust, ended, now=self._now)
        return ended

    async def end(self, run: str, signal: End, why: str) -> Run:
        """End a run in that way, whichever process leads it."""
        ended, _ = await end(self.store, run, signal, why, now=self._now, chance=_chance)
        if run in self._over:  # this process leads it: it need not wait for the next renewal of its hold
            self._over[run].set()
        return ended

    async def followed(self, run: str, start: int = 0) -> AsyncIterator[tuple[Run, Frame]]:
        """Yield the frames of a run from that number on, as they are recorded, until it is over or waits for a person."""
        while True:
            # Taken first, so a frame recorded in between ends the wait below at once.
            seen = await self._state.last_event()
            current = await self.store.run(run)
            for frame in current.frames[start:]:
                yield current, frame
            start = current.count
            if current.state != "running":
                return
            await self._state.changed(seen)

    # --- how ----------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _cancelled_together(self, run: str) -> AsyncIterator[None]:
        """Cancel the run when the block is cancelled, now or as soon as the database can be used again."""

        async def cancel() -> None:
            with suppress(NoSuchRun):  # the run was never begun
                if (await self.store.run(run)).state in ("running", "cancelled"):
                    await self.cancel(run, self.why_cancelled())

        async def cancel_later() -> None:
            try:
                await outlasting(cancel, self._sleep)
            except KnowledgeError as error:
                logger.warning("run %s, which no call waits for any longer, cannot be cancelled now: %s", run, error)

        try:
            yield
        except anyio.get_cancelled_exc_class():
            recorded = False
            # Shielded: what cancelled the call must not also cancel the record of it.
            with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                await cancel()
                recorded = True
            if not recorded:
                self._background.start_soon(cancel_later)
            raise

    async def _lead_or_follow(self, run: str, resumption: _Resumption, progress: Progress) -> Run:
        """Return the run when it is over or waits for a person.

        Raises:
            RunLeft: the database was away for too long. Some process continues the run when it is back.
        """
        try:
            current = await outlasting(lambda: self.store.run(run), self._sleep)
            reporter = _StepReporter(progress, current.count)
            return await outlasting(lambda: self._lead_until_done(run, resumption, reporter), self._sleep)
        except DatabaseUnavailable as error:
            raise RunLeft(run, error.reason) from error

    async def _lead_until_done(self, run: str, resumption: _Resumption, reporter: _StepReporter) -> Run:
        while True:
            try:
                return await self._lead_once(run, resumption, reporter, outlives=False)
            except RunTaken:
                with anyio.move_on_after(HOLD_S / 2):  # the process that leads it may die
                    async for current, frame in self.followed(run, reporter.count):
                        await reporter(current, frame)
                    # The run waits for a person now, but the process that led it may still hold it for a moment.
                    await self._sleep(TRY_S)
            except RunNotThere:
                if not resumption.proposal:
                    raise
                resumption = _Resumption()  # another process was faster: the run continues or has ended
            except ProviderError as error:
                if (await self.store.run(run)).plan is not None:
                    raise LeftToOthers(run, str(error)) from error
                return await self.end(run, "provider_failed", str(error))
            except KnowledgeError:
                raise
            except Exception:
                logger.exception("run %s cannot be led", run)
                return await self.end(run, "failed", BROKEN)

    async def _note_answer(self, run: str, text: str, by: str, ask: str) -> None:
        header = (await self.store.run(run)).header
        for _ in range(MOST_TRIES):
            # A hold that ends at once leaves the run to a process with its model.
            hold = self._hold(HOLD_S if self._has_model_of(header) else 0.0)
            with suppress(RunTaken):
                await note_answer(self.store, run, text, by, ask=ask, hold=hold, chance=_chance)
                self._holds[run] = hold.by
                return
            await self._sleep(TRY_S)  # another process answers it at this moment
        raise RunTaken(run)

    def _start_aside(self, run: str, resumption: _Resumption) -> bool:
        if run in self._aside:
            return True
        if len(self._aside) >= MOST_ASIDE:
            self._background.start_soon(self._let_go, run)
            return False
        self._aside.add(run)
        self._background.start_soon(self._lead_in_background, run, resumption)
        return True

    async def _lead_in_background(self, run: str, resumption: _Resumption) -> None:
        try:
            try:
                await self._lead_once(run, resumption, unwatched, outlives=True)
            except KnowledgeError:
                raise
            except Exception:
                logger.exception("run %s cannot be led", run)
                await self.end(run, "failed", BROKEN)
            self._failed.pop(run, None)
        except (RunTaken, RunNotThere, NoSuchRun):
            pass  # another process was faster
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
                await self._let_go(run)
                await self._announce(run)
            raise
        except KnowledgeError as error:
            logger.warning("run %s cannot be led now: %s", run, error)
            self._try_later(run)
            with suppress(KnowledgeError):
                await self._announce(run)
        except Exception:
            logger.exception("run %s cannot be led", run)
            self._try_later(run)
        finally:
            self._aside.discard(run)
            # An anyio event cannot be reset: wake all waiters, and give the next ones a new event.
            self._ended.set()
            self._ended = anyio.Event()

    async def _let_go(self, run: str) -> None:
        """End this process's hold of a run that it was to lead, and let others know."""
        if by := self._holds.pop(run, ""):
            try:
                await self.store.release(run, by)
                await self._announce(run)
            except KnowledgeError as error:
                logger.warning(
                    "the lease on run %s could not be released and expires within %.0f s: %s", run, HOLD_S, error
                )

    async def _announce(self, run: str) -> None:
        """Let other processes know that a run may be led."""
        await self._state.publish("run", [run])

    def _try_later(self, run: str) -> None:
        before = self._failed.get(run)
        wait_s = min(2 * before.wait_s, LATEST_AGAIN_S) if before else AGAIN_S
        self._failed[run] = _ResumeFailure(self._monotonic() + wait_s, wait_s)

    async def _lead_once(self, run: str, resumption: _Resumption, progress: Progress, *, outlives: bool) -> Run:
        """Lead the run if this process may, and return it as it is then."""
        current = await self.store.run(run)
        if current.over:
            self._holds.pop(run, None)
            return current
        if why := await self.refused(current.header.principal):
            self._holds.pop(run, None)
            return await self.cancel(run, why)  # before the model is sent anything more
        if not self._has_model_of(current.header):
            self._holds.pop(run, None)
            return current  # a person may have agreed to its model, and to no other
        if await self.day.reached():
            await self._let_go(run)
            return current  # the run waits for room, so that a person's answer or decision is not lost
        if current.state != "running" and not resumption.proposal:
            return current
        executor = await self._executor(current, progress, outlives=outlives)
        first = run not in self._here
        self._here.add(run)
        try:
            if resumption.proposal:
                led = await executor.resume(run, resumption.proposal, resumption.became)
            else:
                led = await executor.take_up(run, self._holds.pop(run, ""))
        except NoRoom:
            led = await self.store.run(run)
        finally:
            if first:
                self._here.discard(run)
                self._over.pop(run, None)
        if led.over:  # the run may have ended while one of its calls made a proposal
            await take_back(self._state.trust, led, now=self._now)
        return led

    async def _executor(self, run: Run, progress: Progress, *, outlives: bool) -> Executor:
        async def report(run: Run, frame: Frame) -> None:
            await progress(run, frame)
            # Trust may be withdrawn during a run: then it ends with the next answer of the model.
            if isinstance(frame, PlanFrame) and run.state == "running":
                with suppress(KnowledgeError):  # the gate decides about each call in any case
                    if why := await self.refused(run.header.principal):
                        await self.cancel(run.id, why)

        async def nap(run: str, seconds: float) -> None:
            with anyio.move_on_after(seconds):
                await self._over.setdefault(run, anyio.Event()).wait()

        # The frames' clock starts at the time of day and then follows the monotonic clock, so that nobody can set it back.
        begun_at, since = max(self._now(), run.moved_at), self._monotonic()
        return Executor(
            self.store,
            Processor(await self.model.provider(), self.model.cost),
            self._tools(run.header),
            now=lambda: begun_at + timedelta(seconds=self._monotonic() - since),
            sleep=self._sleep,
            chance=_chance,
            progress=report,
            lease_s=HOLD_S,
            outlives=outlives,
            wall=self._now,
            nap=nap,
            cancelled=self.why_cancelled,
            day=lambda run: outlasting(lambda: self.day.limit_for(run), self._sleep),
        )

    def _has_model_of(self, header: Header) -> bool:
        """Return whether this process has the run's model; otherwise a process that has it continues the run."""
        return header.model in ("", self.model.name)

    def _hold(self, seconds: float = HOLD_S) -> Hold:
        """Return the hold of a run that this process leads next."""
        now = self._now()
        return Hold(f"next-{_chance()}", now, now + timedelta(seconds=seconds))


class _StepReporter:
    """Reports each frame once. A report that fails, or that nobody accepts, does not affect the run."""

    def __init__(self, progress: Progress, count: int) -> None:
        self._progress, self.count = progress, count

    async def __call__(self, run: Run, frame: Frame) -> None:
        if frame.number < self.count:
            return
        self.count = frame.number + 1
        if self._progress is unwatched:
            return
        try:
            with anyio.move_on_after(TOLD_S) as reporting:
                await self._progress(run, frame)
        except Exception as error:  # noqa: BLE001 - the host may be gone, which each transport says in its own way
            logger.debug("a step of run %s could not be reported: %s", run.id, type(error).__name__)
            self._progress = unwatched
        if reporting.cancelled_caught:
            self._progress = unwatched


def _chance() -> str:
    """Return hexadecimal digits that nobody can guess."""
    return secrets.token_hex(8)
