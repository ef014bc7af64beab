"""The people who can decide in Zulip. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from mcp_server.connectors.zulip.model import ZulipUser, reviewer_name, why_powerless


@dataclass(frozen=True, slots=True)
class ListedReviewers:
    """The accounts that decide, by id, each with the entry that lists it; and why other entries of the list decide nothing."""

    people: Mapping[int, tuple[ZulipUser, str]]
    powerless: Mapping[str, str]


def listed_reviewers(entries: Iterable[str], everybody: Collection[ZulipUser], me: ZulipUser) -> ListedReviewers:
    """Return the accounts among `everybody` that the entries of `ZULIP_REVIEWERS` list.

    They are active and belong to people. The server's own account, `me`, never counts: with a person's key a host could make it
    approve its own proposals. An address or name that two accounts have counts for neither, because nobody can tell which was meant.
    """
    bearers: dict[str, list[ZulipUser]] = {reviewer_name(entry): [] for entry in entries}
    for user in everybody:
        for entry in user.reviewer_names & bearers.keys():
            bearers[entry].append(user)
    powerless = {entry: why for entry, users in bearers.items() if (why := why_powerless(entry, users, me))}
    people = {users[0].id: (users[0], entry) for entry, users in bearers.items() if entry not in powerless}
    return ListedReviewers(people, powerless)


def person_name(user: ZulipUser) -> str:
    """Return a person as a decision records them, with the address: any account may take another's name."""
    return f"{' '.join(user.name.split())[:120]} ({user.delivery_email or user.email})"


def principal_of_account(user: ZulipUser) -> str:
    """Return the principal of a person in Zulip, by which the directory of people knows them: `ann@example.org@zulip`."""
    return f"{(user.delivery_email or user.email).lower()}@zulip"
