"""Check the language model: whether one is configured, answers and uses tools, and how to fix each fault.

It is asked one question, as in a run: the vendor's list of models would not show whether there is credit left, or
whether the model can use tools. Its answer is not shown.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio

from agents.loop.model.errors import Overloaded, ProviderError, ProviderLimited
from agents.loop.model.ports import FromUser, ModelReply, ModelRequest, ToolDefinition
from agents.loop.providers.access import RequestPatience
from agents.loop.providers.usage import conversation_id
from knowledge.state.ports import StateStore
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.access import ModelAccess
from mcp_server.app.settings.notes import listed
from mcp_server.app.settings.settings import Settings, missing_for_model
from mcp_server.cli.doctor.result import DoctorFinding, bad, note, ok, unencrypted
from mcp_server.cli.terminal.escape import visible
from mcp_server.models.language_model import ConfiguredModel, day_bounds
from mcp_server.runs.daily_limit import DAY, Day
from mcp_server.runs.locations import runs_in

logger = logging.getLogger("knowledge_forge")

WHAT: Final = "model"
LONGEST_S: Final = 60.0
"""The time limit for its answer: a local server may have to load the model first."""
MOST_TOKENS: Final = 256  # some models reason before they call a tool
HOW: Final = "see guides/language-models.md in the handbook"


async def model_examined(
    settings: Settings, *, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
) -> list[DoctorFinding]:
    """Return the findings on the language model. `sleep` waits between tries."""
    access = settings.provider
    if access is None:
        return [_unset(settings)]
    try:
        return [*await _asked(access, sleep), *_about(access, settings)]
    except Exception as error:
        logger.exception("can't check the language model")
        return [bad(WHAT, f"the check failed: {type(error).__name__}", "see the log above")]


async def day_examined(state: StateStore, settings: Settings) -> DoctorFinding | None:
    """Say how much of the daily limits on runs is used, if there are any."""
    access, store = settings.provider, runs_in(state)
    if access is None or (access.run_day_tokens is None and access.run_day_cost is None):
        return None
    bounds = day_bounds(access)
    if why := await Day(store, bounds, utc_now).spent():
        return note("runs", f"no run starts: {why}", "wait, or raise the limit; waiting runs continue by themselves")
    took = await store.total(since=utc_now() - DAY)
    parts = [bounds.of_tokens(took)] if bounds.tokens is not None else []
    parts += [bounds.of_cost(took)] if bounds.cost_micros is not None else []
    return ok("runs", "; ".join(parts))


def _unset(settings: Settings) -> DoctorFinding:
    missing = missing_for_model({name: getattr(settings, name) for name in Settings.__slots__})
    mend = f"set {listed(missing)}, in the environment of the server or in forge.toml; {HOW}"
    found = "no language model is configured, so agent_run is not listed"
    return DoctorFinding(WHAT, "note", found, mend, unused=True)


async def _asked(access: ModelAccess, sleep: Callable[[float], Awaitable[None]]) -> list[DoctorFinding]:
    patience = RequestPatience(tries=2, whole_s=LONGEST_S, longest_wait_s=5.0, waits_s=5.0)
    model = ConfiguredModel(access, now=utc_now, sleep=sleep, patience=patience)
    tool = ToolDefinition("ready", "Say that you are ready.", {"type": "object", "properties": {}})
    request = ModelRequest(
        conversation_id("doctor", 1, secrets.token_hex(4)),
        (FromUser("Call the tool `ready` now, without a word."),),
        tools=(tool,),
        most_tokens=MOST_TOKENS,
    )
    try:
        reply = await (await model.provider()).complete(request)
        return [_answers(model, reply, access)]
    except ProviderError as error:
        # Providers' errors say what happened and, after a semicolon, what to do.
        found, _, mend = str(error).partition("; ")
        finding = note if isinstance(error, ProviderLimited | Overloaded) else bad
        return [finding(WHAT, visible(found), mend or HOW)]
    finally:
        await model.aclose()


def _answers(model: ConfiguredModel, reply: ModelReply, access: ModelAccess) -> DoctorFinding:
    usage = reply.usage
    took = (
        f"{usage.input} tokens in, {usage.output} out"
        if usage.known
        else "it does not report how many tokens that took"
    )
    cost = model.cost(access.name.model, usage)
    took += f", a cost of {cost:f}" if cost is not None else ""
    found = f"{visible(model.name)} answers (one question: {took})"
    if not reply.uses and reply.stop == "end":
        mend = "name a model that supports tools in FORGE_MODEL, or start its server with tools enabled"
        return note(WHAT, f"{found}, but did not call the tool that it was asked to call, which runs need", mend)
    helps = f"; it also helps with {listed(access.helps)}" if access.helps else ""
    return ok(WHAT, f"{found}{' and calls tools' if reply.uses else ''}{helps}")


def _about(access: ModelAccess, settings: Settings) -> Iterable[DoctorFinding]:
    if settings.toolsets is not None and "runs" not in settings.toolsets:
        found = "the tools of runs are not listed, although a language model is configured"
        yield note(WHAT, found, "add runs to FORGE_TOOLSETS, or unset it")
    yield from unencrypted(WHAT, access.address or "", access.address_setting)
