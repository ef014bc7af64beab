"""The record of a question: the places searched, the evidence, the conclusion, and the acts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine.events import Json
from agents.engine.work.form import items_in

ROUTE, ORIENT, TARGET, DEEP_DIVE, REASON = "ROUTE", "ORIENT", "TARGET", "DEEP_DIVE", "REASON"
ACT, MERGE, COMPLETE = "ACT", "MERGE", "COMPLETE"

MERGES, MOVES, DELETES, REVERTS = "kb_merge", "kb_move", "kb_delete", "kb_revert"
KNOWLEDGE = (MERGES, MOVES, DELETES, REVERTS)
TASKS = ("plane_create_task", "plane_update_task", "plane_comment_task")
MESSAGES = ("zulip_send_message", "zulip_react")
TOOLS_OF: Mapping[str, Sequence[str]] = {
    "answer": (),
    "merge": (MERGES,),
    "move": (MOVES,),
    "delete": (DELETES,),
    "revert": (REVERTS,),
    "task": TASKS,
    "message": MESSAGES,
}
"""The tools that carry out each kind of act."""
UPDATES = ("merge", "move", "delete", "revert")
"""The kinds that change the knowledge base."""
CHANGE = "change"
"""The mode of a small change: the brief says what one page should say, so no evidence is collected for it."""

Item = Mapping[str, Json]


@dataclass(frozen=True)
class CurationRecord:
    """The results of the phases. `works` has the newest work of each."""

    works: Mapping[str, Mapping[str, Json]]

    @property
    def question(self) -> str:
        """The question; "" if nothing was routed yet."""
        return str(self.works.get(ROUTE, {}).get("question", ""))

    @property
    def small(self) -> bool:
        """Whether the work was routed to a small change of one page."""
        return self.works.get(ROUTE, {}).get("mode") == CHANGE

    @property
    def place(self) -> str:
        """The named page or directory; "" if none is named."""
        return str(self.works.get(ROUTE, {}).get("place") or "")

    @property
    def candidates(self) -> Sequence[Item]:
        """The places that the map named."""
        return self._items(ORIENT, "candidates")

    @property
    def targets(self) -> Sequence[Item]:
        """The pages that were chosen."""
        return self._items(TARGET, "pages")

    @property
    def evidence(self) -> Sequence[Item]:
        """The passages that are evidence for the question."""
        return self._items(DEEP_DIVE, "evidence")

    @property
    def conclusion(self) -> str:
        """The conclusion from the evidence, or ""."""
        return str(self.works.get(REASON, {}).get("conclusion", "")).strip()

    @property
    def rests_on(self) -> Sequence[str]:
        """The evidence that the conclusion names."""
        return list(self.works.get(REASON, {}).get("rests_on", ()))

    @property
    def chosen(self) -> Item | None:
        """The chosen act, or None; a small change is the choice itself."""
        if self.small:
            return {"kind": "merge", "path": self.place, "why": "a small change that the brief asks for"}
        act = self.works.get(REASON, {}).get("act")
        return act if isinstance(act, dict) else None

    @property
    def kind(self) -> str:
        """The kind of the chosen act; "" if none is chosen."""
        return str((self.chosen or {}).get("kind", ""))

    @property
    def acts(self) -> Sequence[Item]:
        """The acts that were done or proposed, oldest first."""
        return self._items(ACT, "acts")

    @property
    def said(self) -> str:
        """The answer that the person got."""
        return str(self.works.get(ACT, {}).get("said", "")).strip()

    @property
    def verified(self) -> Mapping[str, Item]:
        """The changed pages as reported in the work, by path."""
        return {str(page["path"]): page for page in self._items(MERGE, "pages")}

    @property
    def changed(self) -> Mapping[str, Sequence[str]]:
        """The paths that acts name, each with the tools that were used on it, oldest first."""
        tools: dict[str, list[str]] = {}
        for act in self.acts:
            if act["tool"] in KNOWLEDGE and act.get("path"):
                tools.setdefault(act["path"], []).append(act["tool"])
        return tools

    def may_be_gone(self, path: str) -> bool:
        """Return whether the last act on the path, or a later move, may have left no page there."""
        knowledge = [act for act in self.acts if act["tool"] in KNOWLEDGE]
        last = max(n for n, act in enumerate(knowledge) if act.get("path") == path)
        return knowledge[last]["tool"] == DELETES or any(act["tool"] == MOVES for act in knowledge[last + 1 :])

    def _items(self, phase: str, name: str) -> Sequence[Item]:
        return items_in(self.works.get(phase, {}), name)
