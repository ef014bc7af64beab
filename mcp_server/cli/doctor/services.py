"""Check the connected services: whether they are configured, what the key can reach, and how to fix each fault.

Nothing else contacts them unless a tool is called. Others wrote the names in their answers, so every character is made visible.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache
from typing import Final, TypeVar
from urllib.parse import urlsplit

import anyio

from agents.engine.work.markdown import counted
from knowledge.errors import KnowledgeError
from knowledge.state.ownership import others_could_read
from mcp_server.app.factories.connectors import board, chat, receivers
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.notes import listed, missing_for_service
from mcp_server.app.settings.services import SERVICE_VARIABLES, PlaneAccess, ZulipAccess
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.result import DoctorFinding, bad, note, ok, unencrypted
from mcp_server.cli.terminal.escape import visible
from mcp_server.connectors.errors import AmbiguousServiceName, Denied, ServiceLimited, UnknownName, Unreachable
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.text.name_match import chosen, folded
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import Channel, ZulipUser, reviewer_name, why_powerless
from mcp_server.connectors.zulip.text.place_names import channel_word

logger = logging.getLogger("knowledge_forge")

DIRECT: Final = "direct"
"""Among allowed channels: direct messages."""
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


async def services_examined(settings: Settings, *, sleep: Sleep = anyio.sleep) -> list[DoctorFinding]:
    """Return the findings on all services. `sleep` waits between tries of requests that only read."""
    findings: list[DoctorFinding] = []
    async with AsyncExitStack() as stack:
        for service in SERVICE_VARIABLES:
            if service not in settings.services:
                findings.append(_unset(service, settings))
            elif service in CHECKS:
                findings += await _looked(service, settings, stack, sleep)
            else:
                findings.append(
                    note(service, "it is configured, but this version can't check it", "call one of its tools")
                )
    return [*findings, *_unlisted(settings), *_open_to_others(settings)]


async def _looked(service: str, settings: Settings, stack: AsyncExitStack, sleep: Sleep) -> list[DoctorFinding]:
    try:
        return await CHECKS[service](settings, stack, sleep)
    except Exception as error:
        logger.exception("can't check %s", SERVICE_VARIABLES[service].title)
        return [bad(service, f"the check failed: {type(error).__name__}", "see the log above")]


def _unset(service: str, settings: Settings) -> DoctorFinding:
    missing = missing_for_service(service, {name: getattr(settings, name) for name in Settings.__slots__})
    its = SERVICE_VARIABLES[service]
    found = f"{its.title} is not configured{'' if len(missing) == len(its.required) else ' completely'}"
    mend = f"set {listed(missing)}, in the environment of the server or in forge.toml; {its.key_source}"
    unused = len(missing) == len(its.required)
    return DoctorFinding(service, "note", f"{found}, so its tools are not listed", mend, unused=unused)


def _unlisted(settings: Settings) -> Iterable[DoctorFinding]:
    for service in settings.services:
        if settings.toolsets is not None and service not in settings.toolsets:
            found = "its tools are not listed, although it is configured"
            yield note(service, found, f"add {service} to FORGE_TOOLSETS, or unset it")


def _open_to_others(settings: Settings) -> Iterable[DoctorFinding]:
    """Yield the files with a key that other accounts can read."""
    model = settings.provider
    keys = [("plane", settings.plane_api_key), ("zulip", settings.zulip_api_key), ("model", model and model.key)]
    keys += [("webhook", secret) for target in settings.webhooks for secret in target.secrets]
    for file in filter(None, (settings.file, settings.zulip_config, settings.model_key_file)):
        with suppress(OSError):
            if exposed := others_could_read(file):
                text = file.read_text(encoding="utf-8", errors="replace")
                for service in dict.fromkeys(service for service, key in keys if key and key in text):
                    yield note(service, f"{exposed.problem}, which holds its key", exposed.mend)


# --- Plane ------------------------------------------------------------------------------------------------------------


async def _check_plane(settings: Settings, stack: AsyncExitStack, sleep: Sleep) -> list[DoctorFinding]:
    access = settings.plane
    # `cache`: the client is made within the check, so that an unreadable file of certificates is a finding.
    return (
        await plane_examined(cache(lambda: board(access, stack, None, utc_now, sleep).client), access) if access else []
    )


async def plane_examined(client: Callable[[], PlaneClient], access: PlaneAccess) -> list[DoctorFinding]:
    """Return what this key can see in Plane, and whether the projects that the settings name exist."""
    try:
        me = await client().me()
        projects = [project for project in (await client().projects()).items if not project.archived]
    except KnowledgeError as error:
        return [_fault("plane", access.base_url, "PLANE_BASE_URL", error)]
    who = f"{access.base_url}, workspace {access.workspace}: the key belongs to {_person(me.name, me.email)}"
    findings = [ok("plane", f"{who}, who sees {counted(len(projects), 'project')}{_reading(access)}")]
    if not projects:
        findings.append(note("plane", "the key sees no project", "have its owner added to one in Plane"))
    allowed = projects
    if access.projects is not None:
        allowed, wrong = _named("Plane", "project", access.projects, projects, lambda p: (p.key, p.name, p.id))
        findings += [bad("plane", f"PLANE_PROJECTS: {why}", "correct PLANE_PROJECTS") for why in wrong]
    if strange := [visible(project.key) for project in allowed if not project.member]:
        found = f"the key's owner is not a member of {', '.join(strange)}: Plane does not return their tasks"
        findings.append(
            note("plane", found, "have them added to the project in Plane, or name the others in PLANE_PROJECTS")
        )
    return [*findings, *unencrypted("plane", access.base_url, "PLANE_BASE_URL")]


# --- Zulip ------------------------------------------------------------------------------------------------------------


async def _check_zulip(settings: Settings, stack: AsyncExitStack, sleep: Sleep) -> list[DoctorFinding]:
    access = settings.zulip
    if access is None:
        return []
    client = cache(lambda: chat(access, stack, utc_now, sleep).client)
    return await zulip_examined(client, access, settings.zulip_reviews)


async def zulip_examined(
    client: Callable[[], ZulipClient], access: ZulipAccess, reviews: tuple[str, str] | None
) -> list[DoctorFinding]:
    """Return what this key can see in Zulip, and whether the channels and people in the settings exist.

    `reviews` is the place for notices.
    """
    try:
        server, me, channels = await client().server(), await client().me(), await client().channels()
        people = await client().people() if access.reviewers else ()
    except KnowledgeError as error:
        return [_fault("zulip", access.site, "ZULIP_SITE", error)]
    what = f"{access.site}: Zulip {visible(server.version)}, feature level {server.level}"
    who = f"the key belongs to {'the bot ' if me.bot else ''}{_person(me.name, me.email)}"
    findings = [ok("zulip", f"{what}; {who}, who sees {counted(len(channels), 'channel')}{_reading(access)}")]
    if not me.bot:
        found = "the key is a person's own: everything is sent in their name"
        findings.append(note("zulip", found, f"use a bot's: {SERVICE_VARIABLES['zulip'].key_source}"))
    names = [name for name in access.channels or () if name.casefold() != DIRECT]
    _, wrong = _named("Zulip", "channel", names, channels, lambda c: (c.name, channel_word(c.name)))
    mend = "correct ZULIP_CHANNELS, or subscribe the bot if the channel is private"
    findings += [bad("zulip", f"ZULIP_CHANNELS: {why}", mend) for why in wrong]
    findings += _notices(reviews, channels)
    findings += [finding for entry in access.reviewers for finding in _reviewer(entry, people, me)]
    return [*findings, *unencrypted("zulip", access.site, "ZULIP_SITE")]


def _notices(reviews: tuple[str, str] | None, channels: Sequence[Channel]) -> Iterable[DoctorFinding]:
    if reviews is None:
        return
    found, wrong = _named("Zulip", "channel", reviews[:1], channels, lambda c: (c.name,))
    for why in wrong:
        yield bad(
            "zulip", f"ZULIP_REVIEWS: {why}", "correct ZULIP_REVIEWS, or subscribe the bot if the channel is private"
        )
    for channel in found:
        if channel.restricted:
            restricted = f"not everybody may post in #{visible(channel.name)}, where notices of proposals go"
            yield note("zulip", restricted, "allow the bot to post in the channel's settings in Zulip")


def _reviewer(entry: str, people: Sequence[ZulipUser], me: ZulipUser) -> Iterable[DoctorFinding]:
    """Yield the reasons why a reaction of the person listed in that way would not count, or could later be somebody else's."""
    bearers = [person for person in people if reviewer_name(entry) in person.reviewer_names]
    if why := why_powerless(entry, bearers, me):
        mend = "correct ZULIP_REVIEWERS; `28` or `Ann|28` is a user's id, which their profile in Zulip shows"
        yield bad("zulip", visible(f"ZULIP_REVIEWERS: {why}"), mend)
    elif reviewer_name(entry) == folded(bearers[0].name):
        found = f"ZULIP_REVIEWERS lists {entry} by name, so anybody who takes that name in Zulip later could decide"
        yield note("zulip", visible(found), f"write {visible(bearers[0].name)}|{bearers[0].id}")


# --- webhooks ---------------------------------------------------------------------------------------------------------


async def _check_webhooks(settings: Settings, stack: AsyncExitStack, sleep: Sleep) -> list[DoctorFinding]:
    """Return the configured receivers. Nothing is sent, because a receiver would take it for an event."""
    if settings.webhook is None:
        return []
    try:
        receivers(settings.webhook, stack, utc_now, sleep)
    except KnowledgeError as error:  # the file of certificates cannot be read
        return [bad("webhook", str(error), "correct FORGE_WEBHOOK_CA")]
    targets = ", ".join(f"{one.name} ({urlsplit(one.url).hostname})" for one in settings.webhook.targets)
    findings = [ok("webhook", f"{counted(len(settings.webhook.targets), 'receiver')}, not contacted: {targets}")]
    if settings.webhook.read_only:
        findings.append(note("webhook", "its tool is not listed: only reading is allowed", "unset FORGE_READ_ONLY"))
    return findings


# --- all --------------------------------------------------------------------------------------------------------------


def _named(
    service: str, kind: str, names: Iterable[str], things: Sequence[T], names_of: Callable[[T], Sequence[str]]
) -> tuple[list[T], list[str]]:
    """Return the things with these names, and what is wrong with the other names: a setting must match exactly."""
    found: list[T] = []
    wrong: list[str] = []
    for name in names:
        there = [thing for thing in things if folded(name) in map(folded, names_of(thing))]
        found += there
        if there:
            continue
        try:
            near = chosen(service, kind, name, things, names_of)
            wrong.append(visible(str(UnknownName(service, kind, name, names_of(near)[:1]))))
        except (UnknownName, AmbiguousServiceName) as error:
            wrong.append(visible(str(error)))
    return found, wrong


def _person(name: str, email: str) -> str:
    return visible(f"{name} ({email})" if email else name)


def _reading(access: PlaneAccess | ZulipAccess) -> str:
    return "; only tools that read are listed" if access.read_only else ""


def _fault(service: str, address: str, setting: str, error: KnowledgeError) -> DoctorFinding:
    """Return the failure in words for a person who is looking at the settings."""
    match error:
        case Unreachable():
            mend = f"check {setting}, and whether this machine can connect to it; HTTPS_PROXY is used, too"
            return bad(service, f"{error.address} cannot be reached: {error.why}", mend)
        case Denied():
            return bad(service, f"{address} refuses the key ({error.status}: {error.why})", error.remedy)
        case ServiceLimited():
            return note(service, f"{address} allows no more requests for now", f"try again in {error.wait_s:.0f} s")
    return bad(service, str(error), f"check whether {setting} is the address of {SERVICE_VARIABLES[service].title}")


CHECKS: Mapping[str, Callable[[Settings, AsyncExitStack, Sleep], Awaitable[list[DoctorFinding]]]] = {
    "plane": _check_plane,
    "zulip": _check_zulip,
    "webhook": _check_webhooks,
}
