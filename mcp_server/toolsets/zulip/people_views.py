"""The answer about people and groups of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_server.connectors.errors import one_line
from mcp_server.connectors.text.name_match import folded, loosened
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.model import ZulipGroup, ZulipUser
from mcp_server.toolsets.zulip.schemas import PeopleFound, PersonLine

MOST_PEOPLE = 50
MOST_GROUPS = 50
LONGEST_NAME = 100


async def people(chat: Chat, query: str) -> PeopleFound:
    """Return the people and groups whose names, addresses or ids match, the best match first; for a group's name its members.

    Names only, no texts about people. Addresses are shown if direct messages are allowed: without those nobody can write to them.
    """
    everybody, groups = await chat.people(), {group.id: group for group in await chat.groups()}
    asked = query.strip().strip("@*_").strip()
    group = next((one for one in groups.values() if asked and folded(asked) in (folded(one.name), str(one.id))), None)
    if group is not None:
        members = _members(group, groups)
        found = [person for person in everybody if person.id in members]
        fitting = [group]
    else:
        ranked = [(rank, person) for person in everybody if (rank := _rank(asked, _names(person))) is not None]
        found = [person for _, person in sorted(ranked, key=lambda one: (not one[1].active, one[0]))]
        fitting = [one for one in groups.values() if _rank(asked, (one.name,)) is not None]
    more = [
        f"{len(all_) - most} more {kind}: give more of the name"
        for kind, all_, most in (("people", found, MOST_PEOPLE), ("groups", fitting, MOST_GROUPS))
        if len(all_) > most
    ]
    if group is not None:
        more.insert(0, f"the people are the members of {group.name}")
    if not found and not fitting:
        more = ["nobody has that name"]
    return PeopleFound(
        [_person(one, shows_address=chat.direct_allowed) for one in found[:MOST_PEOPLE]],
        [_counted(one, groups) for one in fitting[:MOST_GROUPS]],
        note="; ".join(more) or None,
    )


def _rank(asked: str, names: Sequence[str]) -> int | None:
    """Return how well the names match `asked`: 0 if one equals it, 1 if a word of one begins with it, 2 if one contains it.

    None if no name matches.
    """
    if any(folded(asked) == folded(name) for name in names):
        return 0
    wanted = loosened(asked)
    words = [f" {loosened(name)}" for name in names]
    if not wanted:
        return None if asked else 2
    if any(f" {wanted}" in name for name in words):
        return 1
    return 2 if any(wanted in name for name in words) else None


def _names(person: ZulipUser) -> Sequence[str]:
    return [name for name in (person.name, person.delivery_email, person.email, str(person.id)) if name]


def _members(group: ZulipGroup, groups: Mapping[int, ZulipGroup]) -> frozenset[int]:
    """Return the members of the group and of its subgroups."""
    found, seen, waiting = set[int](), {group.id}, [group]
    while waiting:
        one = waiting.pop()
        found |= one.members
        inner = [groups[number] for number in one.subgroups - seen if number in groups]
        seen |= {below.id for below in inner}
        waiting += inner
    return frozenset(found)


def _counted(group: ZulipGroup, groups: Mapping[int, ZulipGroup]) -> str:
    count = len(_members(group, groups))
    return f"{one_line(group.name, LONGEST_NAME)}: {count} member{'' if count == 1 else 's'}"


def _person(person: ZulipUser, *, shows_address: bool) -> PersonLine:
    address = (person.delivery_email or "") if shows_address else ""
    return PersonLine(person.id, one_line(person.name, LONGEST_NAME), address, person.role, person.bot, person.active)
