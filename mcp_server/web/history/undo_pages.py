"""The pages that take changes back: a rehearsal with what stays in conflict, and then exactly that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from knowledge.errors import EffectChanged
from knowledge.history.timestamps import utc_text
from knowledge.writing.effect import FileEffect
from knowledge.writing.undo.past_act import PastAct, Take, UndoConflict
from knowledge.writing.undo.undo import UndoPlan
from mcp_server.approvals.approvers import CannotDecide, requirement_at
from mcp_server.gate.trust.act_levels import level_of_undo
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.presenters.trust import known_principals
from mcp_server.presenters.typed_time import since_of
from mcp_server.web.page_context import Form, PageRequest, see
from mcp_server.web.proposals.page_changes import DiffOptions, Layout, files_of
from mcp_server.web.proposals.passages import WHOLE_AT_ONCE

MOST_ACTS = 100
"""Changes of one undo that are listed."""
MOST_CHOICES = 500
"""Pages whose conflicts a form decides."""
MOST_CONFLICTS = 50
CHANGED_SINCE = "Nothing was undone: the pages have changed since you looked. This is what undoing would do now."


@dataclass(frozen=True, slots=True)
class UndoChoice:
    """What a person asks to take back: one `change`, or everything by a `host` `since` a time, and the sides chosen by page."""

    change: str
    host: str
    since: str
    take_at: Mapping[str, Take]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> UndoChoice:
        """Return the choice in a form or an address."""
        chosen: dict[str, Take] = {}
        for number in range(MOST_CHOICES):
            path, take = fields.get(f"path-{number}"), fields.get(f"take-{number}")
            if path is None:
                break
            if take in ("before", "now"):
                chosen[path] = "before" if take == "before" else "now"
        change, host, since = (fields.get(name, "").strip() for name in ("change", "host", "since"))
        return cls(change, host, since, chosen)

    def at(self, now: datetime) -> UndoChoice:
        """Return the same choice with a time that means the same later: `2h` does not.

        Raises:
            ValueError: it is no time; the message is for the person.
        """
        return replace(self, since=utc_text(since_of(self.since, now))) if self.since else self

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of a form that make the same choice."""
        named = {"change": self.change, "host": self.host, "since": self.since}
        chosen = {
            f"{name}-{number}": value
            for number, (path, take) in enumerate(self.take_at.items())
            for name, value in (("path", path), ("take", take))
        }
        return {name: value for name, value in {**named, **chosen}.items() if value}


async def rehearsal(request: PageRequest) -> Response:
    """Show what taking changes back would do, or the form that asks which host's changes."""
    choice = UndoChoice.of(request.query)
    if not choice.change and not (choice.host and choice.since):
        return await _asking(request, choice, "")
    try:
        choice = choice.at(request.now)
        acts = await _acts(request, choice)
    except ValueError as error:
        return await _asking(request, choice, str(error))
    if not acts:
        return await _asking(
            request, choice, f"{choice.host} has changed nothing since then that is not undone already."
        )
    plan = await request.page.approvals.plan_undo(acts, request.person(), take_at=choice.take_at)
    return await _shown(request, choice, plan)


async def undo(request: PageRequest, form: Form) -> Response:
    """Take the changes back exactly as they were shown; where a word is not enough, make the proposal to sign."""
    choice = UndoChoice.of(form)
    try:
        choice = choice.at(request.now)
        acts = await _acts(request, choice)
    except ValueError as error:
        return await _asking(request, choice, str(error))
    if not acts:
        raise CannotDecide("these changes are undone already")
    plan = await request.page.approvals.plan_undo(acts, request.person(), take_at=choice.take_at)
    if plan.changes_nothing:
        raise CannotDecide("nothing is left to undo")
    if plan.digest != form.get("digest"):
        return await _shown(request, choice, plan, CHANGED_SINCE)
    try:
        done = await request.page.approvals.undo(plan, request.person())
    except CannotDecide:
        proposal = await request.page.approvals.ask_undo(plan, request.person())
        return see(f"/proposals/{proposal.id}")
    except EffectChanged:
        plan = await request.page.approvals.plan_undo(acts, request.person(), take_at=choice.take_at)
        return await _shown(request, choice, plan, CHANGED_SINCE)
    return see("/history?" + urlencode({"undone": done.change}))


async def _acts(request: PageRequest, choice: UndoChoice) -> Sequence[PastAct]:
    """Return the acts to take back, newest first."""
    if choice.change:
        return await request.services.undo.of_change(choice.change)
    if not (choice.host and choice.since):
        return ()
    return await request.services.undo.of_host(choice.host, datetime.fromisoformat(choice.since))


async def _asking(request: PageRequest, choice: UndoChoice, problem: str) -> Response:
    people = await known_principals(request.services.state, request.session.user)
    values = {"here": "/history", "choice": choice, "people": people, "problem": problem}
    return await request.show("undo_host.html", values, 422 if problem else 200)


async def _shown(request: PageRequest, choice: UndoChoice, plan: UndoPlan, problem: str = "") -> Response:
    """Show the rehearsal, with the form that does it."""
    layout: Layout = "inline" if request.query.get("layout") == "inline" else "split"
    short = sum(len(file.diff) for file in plan.files) <= WHOLE_AT_ONCE
    showing = DiffOptions(whole=short and request.query.get("whole") == "1", layout=layout)
    passkeys = bool(await request.trust.passkeys())
    level = await level_of_undo(request.services, plan)
    address = "/undo?" + urlencode(choice.fields)

    def values() -> Mapping[str, Any]:
        left = {file.moved_from for file in plan.files}
        # A page that moves back is one page, not one that goes away and one that comes.
        pages = [file for file in plan.files if file.after is not None or file.path not in left]
        files = [ChangedFile(file.path, file.moved_from or "", _effect(file), file.diff, sent=False) for file in pages]
        return {
            "here": "/history",
            "choice": choice,
            "plan": plan,
            "files": files_of(files, {}, showing),
            "showing": showing,
            "short": short,
            "acts": plan.acts[:MOST_ACTS],
            "more_acts": max(0, len(plan.acts) - MOST_ACTS),
            "conflicts": _by_page(plan.answer.conflicts[:MOST_CONFLICTS], choice),
            "more_conflicts": max(0, len(plan.answer.conflicts) - MOST_CONFLICTS),
            "needs": requirement_at(level, "page", passkeys=passkeys),
            "level": int(level),
            "address": address,
            "problem": problem,
        }

    return await request.show("undo.html", values, 409 if problem else 200)


def _by_page(
    conflicts: Sequence[UndoConflict], choice: UndoChoice
) -> list[tuple[str, Sequence[UndoConflict], Sequence[Take]]]:
    """Return the pages that need a choice or have one: their conflicts, and the sides that can be taken."""
    pages: dict[str, list[UndoConflict]] = {path: [] for path in choice.take_at}
    for conflict in conflicts:
        pages.setdefault(conflict.path, []).append(conflict)
    every: tuple[Take, ...] = ("before", "now")
    return [
        (path, found, [take for take in every if all(take in conflict.choices for conflict in found)])
        for path, found in pages.items()
    ]


def _effect(file: FileEffect) -> str:
    if file.moved_from is not None:
        return "moves back"
    if file.before is None:
        return "comes back"
    return "goes away" if file.after is None else "changes"
