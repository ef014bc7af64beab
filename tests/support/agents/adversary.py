"""Works for agents over a small knowledge base: honest ones in many forms, and ways of cheating.

A work says what is read and searched, and what is submitted in each phase. A person approves whatever is asked.
"""

# ruff: noqa: RUF001 - pages in other scripts are meant
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.engine.work.gaps import citations_in
from tests.support.hosts.writers import Writer

Json = Any
PAGES: Mapping[str, str] = {
    "ops/backup.md": (
        "# Backup\n\nThis page belongs to the platform team.\n\n## Schedule\n\n"
        "A full backup of the order database runs every Sunday at 02:00, and an incremental one every night.\n\n## Retention\n\n"
        "Backups are kept for 35 days in the Frankfurt vault. The finance ledger is the exception: it is kept for ten years.\n\n"
        "## Restore\n\nOnly members of the on-call group may start a restore. "
        "Run `restore --from vault --dry-run` first; it took 41 minutes in the March drill.\n\n"
        f"## History\n\n{'The drill of each spring is written down here by whoever led it. ' * 120}\n"
    ),
    "ops/queue.md": (
        "# Queue\n\nThe queue keeps a message for 14 days. "
        "After five failed deliveries a message moves to the dead-letter queue.\n\n## Settings\n\n"
        "| setting | value |\n|---|---|\n| visibility_timeout | 30 s |\n| max_receive_count | 5 |\n"
    ),
    "ops/alarms.md": (
        "# Alarms\n\nAn alarm that nobody acknowledges within ten minutes goes to the second shift. "
        "In the May outage the alarm went to a mailbox that nobody reads.\n"
    ),
    "de/sicherung.md": "# Sicherung\n\nDie Winterdatensicherung liegt im Lager Nord und wird zwölf Wochen lang aufbewahrt.\n",
    "tr/yedek.md": (
        "# Yedekleme\n\nYedeklerin saklanma süresi otuz beş gündür. Geri yüklemeyi yalnızca nöbetçi ekip başlatabilir.\n"
    ),
    "zh/backup.md": "# 备份\n\n订单数据库的备份会保留三十五天，然后自动删除。只有值班小组可以开始恢复。\n",
}


def quote(path: str, section: str, words: str) -> dict[str, str]:
    return {"path": path, "section": section, "quote": words}


KEPT = quote("ops/backup.md", "Retention", "Backups are kept for 35 days in the Frankfurt vault.")
LEDGER = quote("ops/backup.md", "Retention", "The finance ledger is the exception: it is kept for ten years.")
GROUP = quote("ops/backup.md", "Restore", "Only members of the on-call group may start a restore.")
DRY = quote("ops/backup.md", "Restore", "Run `restore --from vault --dry-run` first")
SUNDAY = quote("ops/backup.md", "Schedule", "A full backup of the order database runs every Sunday at 02:00")
DEAD = quote("ops/queue.md", "Queue", "After five failed deliveries a message moves to the dead-letter queue.")
DAYS = quote("ops/queue.md", "Queue", "The queue keeps a message for 14 days.")
COUNT = quote("ops/queue.md", "Settings", "| max_receive_count | 5 |")
SHIFT = quote(
    "ops/alarms.md", "Alarms", "An alarm that nobody acknowledges within ten minutes goes to the second shift."
)
MAILBOX = quote("ops/alarms.md", "Alarms", "In the May outage the alarm went to a mailbox that nobody reads.")
LAGER = quote("de/sicherung.md", "Sicherung", "Die Winterdatensicherung liegt im Lager Nord")
YEDEK = quote("tr/yedek.md", "Yedekleme", "Yedeklerin saklanma süresi otuz beş gündür.")
CHINESE = quote("zh/backup.md", "备份", "订单数据库的备份会保留三十五天")


@dataclass(frozen=True)
class Attempt:
    """A work. `reads` are the readings before the first submit (all cited pages, in full, if None); `refused` is what stops it."""

    name: str
    agent: str
    brief: str
    works: Mapping[str, Json]
    inputs: Mapping[str, Json] = field(default_factory=dict)
    reads: tuple[Mapping[str, str], ...] | None = None
    searches: tuple[str, ...] = ()
    refused: str = ""

    def but(self, name: str, refused: str = "", *, reads: Any = ..., **phases: Json) -> Attempt:
        """Return this work with other works in some phases."""
        changed = {**self.works, **phases}
        return replace(self, name=name, works=changed, refused=refused, reads=self.reads if reads is ... else reads)


@dataclass(frozen=True)
class Outcome:
    """Where a work came to, and the last answer of the server."""

    state: str
    phase: str
    told: str


async def carry_out(host: Writer, attempt: Attempt, *, insist: bool = False) -> Outcome:
    """Lead a journey by the work, until it is complete or a submit leaves it where it is.

    `insist`: a work that is sent back is submitted once more, unchanged.
    """
    at = await host.call("journey_start", agent=attempt.agent, brief=attempt.brief, inputs=dict(attempt.inputs))
    journey, looked = at["journey_id"], False
    for phase, work in attempt.works.items():
        if at["phase"] != phase:
            break
        if not looked and "kb_read" in at["allowed_tools"]:
            await _read(host, journey, attempt)
            looked = True
        if "kb_search" in at["allowed_tools"]:
            for query in attempt.searches:
                await host.call("kb_search", query=query, journey_id=journey)
        at = await host.call("journey_submit", journey_id=journey, version=at["version"], work=work)
        if insist and "the configured model" in at["prompt"] and (at["state"], at["phase"]) == ("active", phase):
            at = await host.call("journey_submit", journey_id=journey, version=at["version"], work=work)
        if at["state"] == "waiting":
            at = await host.call("journey_decide", journey_id=journey, version=at["version"], decision="approve")
    return Outcome(at["state"], at["phase"], at["prompt"])


async def _read(host: Writer, journey: str, attempt: Attempt) -> None:
    cited = dict.fromkeys(citation.path for _, citation in citations_in(attempt.works))
    pages = [{"path": path, "view": "full"} for path in cited if path in PAGES]
    for reading in pages if attempt.reads is None else attempt.reads:
        await host.call("kb_read", **reading, journey_id=journey)
