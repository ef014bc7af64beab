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
from knowledge.writing.undo.past_act import PastAct, Take
from knowledge.writing.undo.undo import UndoPlan
from mcp_server.approvals.approvers import CannotDecide, must_sign, requirement_at
from mcp_server.gate.trust.act_levels import level_of_undo
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.presenters.trust import known_principals
from mcp_server.presenters.typed_time import since_of, typed_or_picked
from mcp_server.web.page_context import Form, PageRequest, see
from mcp_server.web.proposals.page_changes import DiffOptions, Layout, files_of
from mcp_server.web.proposals.passages import WHOLE_AT_ONCE

MOST_ACTS = 100
"""Changes of one undo that are listed."""
MOST_CONFLICTS = 50
"""Conflicts that a form shows and decides one by one."""
CHANGED_SINCE = "Nothing was undone: the pages have changed since you looked. This is what undoing would do now."


@dataclass(frozen=True, slots=True)
class UndoChoice:
    """The changes that a person asks to take back: one `change`, or all changes that `host` made since the time `since`.

    `take` is the side chosen for all conflicts. `take_at` has the side chosen for single conflicts, by their ids.
    """

    change: str
    host: str
    since: str
    take: Take
    take_at: Mapping[str, Take]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> UndoChoice:
        """Return the choice in a form or an address."""
        chosen: dict[str, Take] = {}
        for number in range(MOST_CONFLICTS):
            conflict, take = fields.get(f"conflict-{number}"), _side(fields.get(f"take-{number}"))
            if conflict and take:
                chosen[conflict] = take
        change, host, since = (typed_or_picked(fields, name).strip() for name in ("change", "host", "since"))
        take = _side(fields.get("take"))
        return cls(change, host, since, take, {} if take else chosen)

    def at(self, now: datetime) -> UndoChoice:
        """Return the same choice with `since` as a date and time, because `2h` would mean something else later.

        Raises:
            ValueError: `since` is no time; the message is for the person.
        """
        return replace(self, since=utc_text(since_of(self.since, now))) if self.since else self

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of a form that make the same choice."""
        named = {"change": self.change, "host": self.host, "since": self.since, "take": self.take}
        chosen = {
            f"{name}-{number}": value
            for number, (conflict, take) in enumerate(self.take_at.items())
            for name, value in (("conflict", conflict), ("take", take))
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
        return await _asking(request, choice, f"No change of {choice.host} since then is left to undo.")
    plan = await request.page.approvals.plan_undo(acts, request.person(), take=choice.take, take_at=choice.take_at)
    return await _shown(request, choice, plan)


async def undo(request: PageRequest, form: Form) -> Response:
    """Take the changes back exactly as they were shown. If the person may not do that alone, make a proposal and show it."""
    choice = UndoChoice.of(form)
    try:
        choice = choice.at(request.now)
        acts = await _acts(request, choice)
    except ValueError as error:
        return await _asking(request, choice, str(error))
    if not acts:
        raise CannotDecide("these changes are undone already")
    plan = await request.page.approvals.plan_undo(acts, request.person(), take=choice.take, take_at=choice.take_at)
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
        plan = await request.page.approvals.plan_undo(acts, request.person(), take=choice.take, take_at=choice.take_at)
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
    passkeys = await must_sign(request.trust, request.session.user)
    level = await level_of_undo(request.services, plan)
    address = "/undo?" + urlencode(choice.fields)
    # Decided ones stay in view, in place, so that another side can be taken.
    conflicts = sorted((*plan.answer.conflicts, *plan.answer.decided), key=lambda one: (one.path, one.line, one.id))

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
            "conflicts": conflicts[:MOST_CONFLICTS],
            "more_conflicts": max(0, len(conflicts) - MOST_CONFLICTS),
            "needs": requirement_at(level, "page", passkeys=passkeys),
            "level": int(level),
            "address": address,
            "problem": problem,
        }

    return await request.show("undo.html", values, 409 if problem else 200)


def _side(value: str | None) -> Take:
    return "before" if value == "before" else "now" if value == "now" else ""


def _effect(file: FileEffect) -> str:
    if file.moved_from is not None:
        return "moves back"
    if file.before is None:
        return "comes back"
    return "goes away" if file.after is None else "changes"
