"""An audit record as the terminal and the page show it: one line in a list, or everything about one act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knowledge.history.acts import IMPORT, lines_changed
from knowledge.history.audit.chain import START, digest_of, fields_of
from knowledge.history.audit.search import changes_of, pages_of, record_at
from knowledge.history.ports import AuditRecord, Ledger

MOST_FILES = 200
"""Files of one act that are shown."""
MOST_COUNTED = 50
"""Files of one act whose lines are counted, from their bytes before and after."""


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """An audit record as one line. `at` is in UTC to the second; `subjects` is what the record is about."""

    at: str
    principal: str
    tool: str
    outcome: str
    proposal: str
    subjects: Sequence[str]


@dataclass(frozen=True, slots=True)
class ActFile:
    """One file of an act. `effect` is `created`, `changed`, `deleted`, `moved` or `recorded` (its bytes stayed the same).

    `added` and `removed` count lines; they are None if they were not counted, or the bytes are no longer kept.
    """

    path: str
    effect: str
    before: str | None
    after: str | None
    moved_from: str = ""
    added: int | None = None
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class ActFact:
    """One fact of an act for people; `name` is for programs that show it, such as `proposal`."""

    name: str
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class AuditedAct:
    """Everything about one act. Its record is number `seq` of `end`.

    `fits` tells whether its hash fits the record before; None if that record is missing. `left_out` files are not in `files`.
    """

    record: AuditRecord
    end: int
    previous: bytes | None
    fits: bool | None
    summary: AuditSummary
    facts: Sequence[ActFact]
    files: Sequence[ActFile] = field(default=())
    left_out: int = 0

    @property
    def changes_pages(self) -> bool:
        """Whether the act left a file different from before."""
        return any(file.before != file.after or file.moved_from for file in self.files)

    @property
    def chain_sentence(self) -> str:
        """Whether the record fits the one before it, in words."""
        if self.fits is None:
            return f"Record {self.record.seq - 1} is missing, so this one's place in the chain can't be checked."
        return (
            "Its hash fits the record before it." if self.fits else "Its hash does not fit: the chain was edited here."
        )


def audit_summary(fields: Mapping[str, Any]) -> AuditSummary:
    """Return a record's fields as one line; of a record that was made unreadable, an empty one."""
    principal, tool, outcome, proposal = (
        str(fields.get(k) or "") for k in ("principal", "tool", "outcome", "proposal")
    )
    at = str(fields.get("at", ""))[:19].replace("T", " ")
    return AuditSummary(at, principal, tool, outcome, proposal, subjects_of(fields))


def subjects_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the subject of a record: pages; else a place in another service, or a run; else a decision and its reason."""
    if pages := pages_of(fields):
        return pages
    # `standing` is what the chain calls a change of a trust record. Its hashes cover that name, so it stays.
    delivery, run, move = (fields.get(name) for name in ("delivery", "run", "standing"))
    if isinstance(delivery, dict):
        subjects = [delivery.get("target"), fields.get("proposal")]
    elif isinstance(run, dict):
        subjects = [run.get("id"), run.get("model")]
    else:
        moved = f"{move.get('before')} -> {move.get('after')}" if isinstance(move, dict) else ""
        subjects = [fields.get("proposal"), fields.get("decision"), moved, fields.get("intent")]
    return [str(one) for one in subjects if one]


async def audited_act(ledger: Ledger, seq: int) -> AuditedAct | None:
    """Return everything about the act with that record; None if there is no such record."""
    record = await record_at(ledger, seq)
    if record is None:
        return None
    before = await record_at(ledger, seq - 1) if seq > 1 else None
    previous = START if seq == 1 else before.digest if before else None
    fields = fields_of(record)
    files = list(_files(fields))
    counted = [await _counted(ledger, file) for file in files[:MOST_COUNTED]]
    return AuditedAct(
        record=record,
        end=(await ledger.chain_end())[0],
        previous=previous,
        fits=None if previous is None else digest_of(previous, record.body) == record.digest,
        summary=audit_summary(fields),
        facts=list(_facts(fields)),
        files=[*counted, *files[MOST_COUNTED:MOST_FILES]],
        left_out=max(0, len(files) - MOST_FILES),
    )


def _files(fields: Mapping[str, Any]) -> Iterator[ActFile]:
    """Yield the act's files. A moved page has two changes in the record, which are shown as one file."""
    changes = {str(change.get("path")): change for change in changes_of(fields)}
    moved_away = {str(change.get("moved_from")) for change in changes.values() if change.get("moved_from")}
    for path, change in changes.items():
        before, after, source = (
            str(change.get(key)) if change.get(key) else None for key in ("before", "after", "moved_from")
        )
        if source:
            former = changes.get(source, {}).get("before") or before
            yield ActFile(path, "moved", str(former) if former else None, after, source)
        elif after is None and path in moved_away:
            continue
        elif before == after:
            yield ActFile(path, "recorded", before, after)
        else:
            effect = "created" if before is None else "deleted" if after is None else "changed"
            yield ActFile(path, effect, before, after)


async def _counted(ledger: Ledger, file: ActFile) -> ActFile:
    """Return the file with its lines counted, if its bytes before and after are still kept."""
    before, after = [
        None if revision is None else await ledger.content(file.path, revision)
        for revision in (file.before, file.after)
    ]
    if (file.before and before is None) or (file.after and after is None):
        return file
    added, removed = lines_changed(before, after)
    return replace(file, added=added, removed=removed)


def _facts(fields: Mapping[str, Any]) -> Iterator[ActFact]:
    """Yield what the record says, apart from its files, without fields that are empty."""
    summary = audit_summary(fields)
    delivery, run, move = (
        value if isinstance(value := fields.get(name), dict) else {} for name in ("delivery", "run", "standing")
    )
    judged, undoes = fields.get("judged"), fields.get("undoes")
    frozen = ", frozen" if move.get("frozen") else ""
    usage = [f"{run[key]:,} {words}" for key, words in _USAGE if isinstance(run.get(key), int)]
    for name, label, value in (
        ("at", "When", f"{summary.at} UTC" if summary.at else ""),
        ("principal", "By", summary.principal),
        ("tool", "Tool", summary.tool),
        ("outcome", "Outcome", summary.outcome),
        ("intent", "Purpose", fields.get("intent")),
        ("source", "Source", fields.get("source") if fields.get("changes") else None),
        ("confidence", "Confidence", fields.get("confidence")),
        ("proposal", "Proposal", fields.get("proposal")),
        ("decision", "Decision", fields.get("decision")),
        ("undoes", "Took back", ", ".join(map(str, undoes)) if isinstance(undoes, list) else ""),
        ("trust", "Trust", f"{move.get('principal')}: {move.get('before')} -> {move.get('after')}{frozen}" if move else ""),
        ("target", "Sent to", delivery.get("target")),
        ("delivery", "Delivery", delivery.get("errand")),
        ("run", "Run", run.get("id")),
        ("model", "Model", run.get("model")),
        ("usage", "Used", ", ".join(usage)),
        ("call", "Import" if str(fields.get("call")).startswith(IMPORT) else "Step of a run", fields.get("call")),
        ("judged", "Answers", f"{len(judged)} about pairs of statements" if isinstance(judged, list) else ""),
        ("arguments_hash", "Arguments (SHA-256)", fields.get("arguments_hash")),
    ):  # fmt: skip
        if value is not None and value != "":
            yield ActFact(name, label, str(value))


_USAGE = (("iterations", "answers"), ("tokens_in", "tokens in"), ("tokens_out", "tokens out"))
