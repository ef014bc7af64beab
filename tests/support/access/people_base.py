"""A knowledge base with a folder for each person, and what its people may do where.

Each page of a person's folder has that person's canary: a word that is in no other folder. It is in paths, titles, aliases, tags,
headings, texts and properties.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from knowledge.access.rules import AccessRules, PathAccess, PathRule, Right
from mcp_server.gate.host_registration import os_user
from tests.support.knowledge_bases.folders import write

PEOPLE = ("ann", "ben", "eve")
CANARIES = {"ann": "quokkafern", "ben": "zanderplum", "eve": "wombatsky"}
MODIFIED_NS = 1_760_000_000_000_000_000
RULE_LIST = (
    *(PathRule(person, f"people/{person}", Right.WRITE) for person in PEOPLE),
    PathRule("@staff", "people/ben/shared", Right.READ),
    PathRule("ben", "people/ben/shared", Right.WRITE),
    PathRule("*", "policies", Right.READ),
    PathRule("ann", "policies", Right.WRITE),
    PathRule("*", "drafts", Right.PROPOSE),
)
RULES = AccessRules(RULE_LIST)
GROUPS: Mapping[str, tuple[str, ...]] = {"ann": ("staff",), "ben": ("staff",), "eve": ()}

COMMON = {
    "_index.md": "---\ntitle: Home\nsummary: The team's memory.\n---\n# Home\n\n"
    "See [plans](plans/q3.md) and [the diary](people/ann/diary.md).\n",
    "plans/q3.md": "---\ntitle: Plan for Q3\ntags: [plans, money]\n---\n# Plan for Q3\n\n"
    "## Budget\n\nThe budget for travel is 4,000 euros.\n\n"
    "## Dates\n\nThe launch is on 3 March 2027. See [[Launch list]].\n",
    "plans/launch.md": "---\ntitle: Launch list\naliases: [launch]\ntags: [plans]\n---\n# Launch list\n\n"
    "- Book the hall\n- Invite the press\n",
    "policies/travel.md": "---\ntitle: Travel policy\ntags: [money]\n---\n# Travel policy\n\n"
    "Flights are booked by the office. Travel costs are paid within 14 days.\n",
    "drafts/idea.md": "---\ntitle: An idea\n---\n# An idea\n\nA shared calendar for holidays.\n\nSee [plan](../plans/q3.md).\n",
    "people/team.md": "---\ntitle: Team\n---\n# Team\n\nAnn, Ben and Eve work here.\n",
}


def pages_of(person: str) -> dict[str, str]:
    """Return the pages of a person's folder."""
    word = CANARIES[person]
    base = f"people/{person}"
    return {
        f"{base}/_index.md": f"---\ntitle: Notes of {word}\nsummary: All about {word}.\n---\n# Notes of {word}\n",
        f"{base}/diary.md": f"---\ntitle: Diary {word}\naliases: [{word} log, launch]\ntags: [{word}, plans]\n---\n# Diary {word}\n\n"
        f"## Salary {word}\n\nThe budget for travel is 9,000 euros, says {word}. See [plan](../../plans/q3.md) and [[Launch list]].\n",
        f"{base}/{word}-launch.md": f"# Launch list\n\n{word} books the hall. The launch is on 4 March 2027.\n",
        f"{base}/plan for q3.md": f"# Plan for Q3\n\nTravel costs are paid within 30 days. {word}{word}\n",
        f"{base}/shared/open.md": f"---\ntags: [open, {'shared' if person == 'ben' else word}]\n---\n# Open notes of {person}\n\n"
        + (f"The hall costs 700 euros. {word}\n" if person != "ben" else "The hall costs 700 euros.\n"),
    }


def all_pages() -> dict[str, str]:
    """Return every page, by path."""
    return {**COMMON, **{path: text for person in PEOPLE for path, text in pages_of(person).items()}}


def access_of(person: str | None) -> PathAccess:
    """Return what the person may do where; None is a caller who is nobody in particular."""
    return RULES.access(person, GROUPS.get(person or "", ()))


async def load_access(principal: str) -> PathAccess:
    """Return the access of a host of this machine that is named after its person; of the owner's all."""
    host = principal.removeprefix(f"{os_user()}@")
    if host == "owner":
        return PathAccess()
    return access_of(host if host in PEOPLE else None)


def written(root: Path, paths: Iterable[str]) -> Path:
    """Write those pages, with the same time each."""
    pages = all_pages()
    write(root, {path: pages[path] for path in paths})
    for path in paths:
        os.utime(root / path, ns=(MODIFIED_NS, MODIFIED_NS))
    return root
