"""The outcomes of the acts that a work names, from the server's own records. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine.agent import Called, Fate, Look
from agents.engine.events import Json
from agents.engine.work.form import ids
from agents.engine.work.gaps import listing, short
from agents.library.curate.record import KNOWLEDGE, MESSAGES, MOVES, TASKS, Item

WRITTEN = ("done", "partial")
_WRITERS = (*KNOWLEDGE, *TASKS, *MESSAGES)


@dataclass
class ActsOnRecord:
    """The acts by their outcome. `wrong` lists mistakes in the acts as submitted, `waiting` the decisions that a person still owes."""

    changed: list[Item] = field(default_factory=list)
    done: list[Item] = field(default_factory=list)
    unchanged: list[Item] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def held(self) -> list[str]:
        """Why the work cannot continue, whichever act was chosen."""
        return [*self.wrong, *self.waiting]

    def settle(self, act: Item, *, changed: bool = True) -> None:
        """Mark the act as recorded."""
        if not changed:
            self.unchanged.append(act)
        else:
            (self.changed if act["tool"] in KNOWLEDGE else self.done).append(act)


async def acts_on_record(acts: Sequence[Item], look: Look) -> ActsOnRecord:
    """Return the outcomes of the acts, from the calls of this visit and the proposals of this journey."""
    calls = await look.calls()
    deeds, free = ActsOnRecord(), list(calls)
    # The same merge again changes nothing, but the page was changed in this journey, and what it says now must be checked.
    before = {_path(call) for call in await look.calls(of_all_visits=True) if _changed(call)}
    fates = {str(act["proposal"]): await look.proposal(str(act["proposal"])) for act in acts if act.get("proposal")}
    for act in acts:
        if act["tool"] in KNOWLEDGE and not act.get("path"):
            deeds.wrong.append(f"{act['id']} names no page: put the path that {act['tool']} returned into `path`")
        elif act.get("proposal"):
            await _proposed(deeds, act, fates[str(act["proposal"])], calls, look)
        else:
            _called(deeds, act, free, before)
    deeds.wrong += await _unnamed(acts, fates, calls, look)
    return deeds


async def _proposed(deeds: ActsOnRecord, act: Item, fate: Fate | None, calls: Sequence[Called], look: Look) -> None:
    """Record the outcome of an act that a person is, or was, asked about."""
    id_, tool, proposal = act["id"], act["tool"], act["proposal"]
    made = [call for call in calls if call.tool == tool and call.facts.get("proposal") == proposal]
    if fate is None:
        deeds.wrong.append(f"{id_}: this journey made no proposal {proposal}; name the one that {tool} returned")
    elif fate.tool != tool:
        deeds.wrong.append(f"{id_}: proposal {proposal} is one of {fate.tool}, not of {tool}")
    elif fate.state == "pending":
        deeds.waiting.append(
            f"{id_} ({_about(act)}) waits for the person's decision about proposal {proposal}: tell them, look with "
            "proposal_status, then submit again"
        )
    elif fate.state == "rejected":
        deeds.wrong.append(f"{id_}: proposal {proposal} was rejected: drop {id_}, and do what was chosen since")
    # A call of this proposal that wrote something shows the effect, however the proposal ended.
    elif fate.state == "ended" and not any(_same(call, act, WRITTEN) for call in made):
        deeds.wrong.append(f"{id_}: proposal {proposal} ended without effect: act again, or drop {id_}")
    elif tool in KNOWLEDGE and not await _is_at(act, fate, made, look):
        there = listing(_paths(made)) or fate.path[:200]
        deeds.wrong.append(f"{id_}: proposal {proposal} is not about {str(act['path'])[:200]} but about {there}")
    else:
        deeds.settle(act, changed=_status(made) != "unchanged")


async def _is_at(act: Item, fate: Fate, made: Sequence[Called], look: Look) -> bool:
    """Return whether an approved act concerns the path that it names; for a moved page that is the new path."""
    if act["path"] in _paths(made):
        return True
    if act["tool"] != MOVES:
        return bool(act["path"] == fate.path)
    return not _paths(made) and act["path"] != fate.path and await look.place(str(act["path"])) == "page"


def _called(deeds: ActsOnRecord, act: Item, free: list[Called], changed_before: Collection[str]) -> None:
    """Note an act that needed no approval, if a call of this visit shows it. A call can show only one act."""
    about = [call for call in free if _same(call, act)]
    # The best outcome first, because a page may have been written on a second try.
    for status in (*WRITTEN, "unchanged"):
        shown = next((call for call in about if call.facts.get("status") == status), None)
        if shown is not None:
            # Each call shows one act only: two merges on one page need two calls.
            free.remove(shown)
            deeds.settle(act, changed=status != "unchanged" or act.get("path") in changed_before)
            return
    deeds.wrong.append(_not_done(act, about[-1] if about else None, free))


def _not_done(act: Item, call: Called | None, calls: Sequence[Called]) -> str:
    id_, status = act["id"], call.facts.get("status") if call else None
    if call is None:
        shown = [
            f"{c.tool} {_path(c)}".strip() for c in calls if c.tool in _WRITERS and c.facts.get("status") in WRITTEN
        ]
        there = f"; on record: {listing(shown)}" if shown else ""
        return f"{id_} ({_about(act)}) is no call of this visit with this journey_id: do it now, or drop {id_}{there}"
    if status == "proposed":
        return f"{id_} ({_about(act)}) became proposal {call.facts.get('proposal')}: name it in {id_}"
    if status == "unsure":
        return (
            f"it is not known whether {id_} ({_about(act)}) was done: call it again with the same arguments, which looks "
            "first and does it once"
        )
    again = "read the page again and use its revision" if act["tool"] in KNOWLEDGE else "try again"
    return f"{id_} ({_about(act)}) changed nothing: its status is {short(status, 40)}; {again}, or drop {id_}"


async def _unnamed(
    acts: Sequence[Item], fates: Mapping[str, Fate | None], calls: Sequence[Called], look: Look
) -> list[str]:
    """Return a sentence for each change or proposal of this visit that no act names."""
    missing = []
    for call in calls:
        if call.tool not in _WRITERS:
            continue
        proposal = str(call.facts.get("proposal") or "")
        fate = await look.proposal(proposal) if proposal and proposal not in fates else None
        # A proposal that superseded another shares its outcome.
        if fate is not None and fate.state in ("pending", "rejected") and fate not in fates.values():
            missing.append(
                f"{call.tool} made proposal {proposal}: name it in an act, or take it back with proposal_withdraw"
            )
        elif _changed(call) and proposal not in fates and not any(_same(call, act) for act in acts):
            missing.append(f"{call.tool} changed {_path(call)}: name that in an act, too")
    return list(dict.fromkeys(missing))


def _changed(call: Called) -> bool:
    return call.tool in KNOWLEDGE and call.facts.get("status") in WRITTEN


def _same(call: Called, act: Item, statuses: Sequence[str] | None = None) -> bool:
    """Return whether the call used the act's tool and ended with one of the statuses.

    A call of a tool for pages must also have been about the act's page. Without `statuses`, any status will do.
    """
    about = call.tool == act["tool"] and (call.tool not in KNOWLEDGE or _path(call) == act.get("path"))
    return about and (statuses is None or call.facts.get("status") in statuses)


def _status(made: Sequence[Called]) -> Json:
    """Return the outcome of the newest call that did more than propose."""
    ended = [call.facts.get("status") for call in made if call.facts.get("status") != "proposed"]
    return ended[-1] if ended else None


def _paths(calls: Sequence[Called]) -> list[str]:
    return list(dict.fromkeys(_path(call) for call in calls if _path(call)))


def _path(call: Called) -> str:
    return str(call.facts.get("path") or "")


def _about(act: Item) -> str:
    return f"{act['tool']} {str(act.get('path') or '')[:200]}".strip()


async def rejected(given: Sequence[Item], acts: Sequence[Item], look: Look) -> list[tuple[Item, Fate]]:
    """Return the acts whose proposals a person rejected: those named now, and those proposed in this visit.

    An act that was rejected on an earlier visit may still be recorded; it is not the one that the person rejects now.
    """
    now = {str(call.facts.get("proposal")) for call in await look.calls()}
    found = []
    for act in acts:
        proposal = str(act.get("proposal") or "")
        if proposal and (act["id"] in ids(given) or proposal in now):
            fate = await look.proposal(proposal)
            if fate is not None and fate.state == "rejected" and fate.tool == act["tool"]:
                found.append((act, fate))
    return found
