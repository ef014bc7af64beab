"""A ledger that ends with the process: slow, obvious, and the specification of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge.errors import ProposalSettled, UnknownIntent
from knowledge.history.acts import (
    APPROVED_BY,
    FOLLOW,
    PERSONS,
    act_name,
    carries_out,
    history_line,
    moves,
    origins_at,
    outside_line,
    pages_changed,
    paths_to_tell,
    recorded_act,
    require_sound,
    states_given,
    storable,
)
from knowledge.history.audit.chain import START, body_of, digest_of, recorded_at
from knowledge.history.codec import content_digest, revision_of
from knowledge.history.ports import (
    ActsWanted,
    AuditRecord,
    AuditScan,
    Flag,
    Found,
    HistoryEntry,
    Intent,
    KeptState,
    RecordedAct,
    Revision,
    Settlement,
    Tracked,
    rank_of,
)
from knowledge.history.timestamps import aware
from knowledge.merge.model import Contradiction, Dismissal
from knowledge.pages.claim_source import source_kind
from knowledge.pages.paths import within
from knowledge.trust.ports import Proposal

FOR_EVER = 2**62
LOOKED_FOR = ("plane", "zulip")


@dataclass
class _State:
    raw: bytes
    since: datetime
    at: datetime
    in_history: bool = False


@dataclass(frozen=True)
class _MemoryName:
    """An earlier path of a page: its history lines below `below` are the page's; it was moved away at `until`."""

    path: str
    below: int
    until: datetime | None


class MemoryLedger:
    """Revisions, provenance, contradictions and audit records in this process.

    `tell` publishes changed paths; `proposals` are those of the same state, by id.
    """

    def __init__(
        self, tell: Callable[[str, Sequence[str]], object], proposals: dict[str, Proposal] | None = None
    ) -> None:
        self._tell = tell
        self._proposals = {} if proposals is None else proposals
        self._states: dict[tuple[str, str], _State] = {}
        self._lines: list[Revision] = []
        self._intents: dict[str, Intent] = {}
        self._tracked: dict[str, Tracked] = {}
        self._flags: list[Flag] = []
        self._records: list[AuditRecord] = []

    async def keep(self, path: str, raw: bytes, *, how: Found, at: datetime) -> str:
        """Keep these bytes as a state of the page and return their revision."""
        revision = self._keep(path, raw, aware(at))
        if how == "outside":
            self._states[path, revision].in_history = True
            own = [line for line in self._lines if line.path == path]
            last = own[-1] if own else None
            if last is None or last.revision != revision:
                self._lines.append(outside_line(len(self._lines) + 1, path, revision, last, at))
        return revision

    async def seen_last(self, path: str) -> KeptState | None:
        """Return the state of the page that was seen last."""
        own = [(state.at, content_digest(state.raw)) for (at, _), state in self._states.items() if at == path]
        return KeptState(revision_of(max(own)[1]), max(own)[0], "seen") if own else None

    async def removed(self, path: str, *, at: datetime) -> None:
        """Record that somebody removed the page outside the server."""
        own = [line for line in self._lines if line.path == path]
        if own and own[-1].revision is not None:
            self._lines.append(outside_line(len(self._lines) + 1, path, None, own[-1], aware(at)))

    async def newest_lines(self) -> Sequence[Revision]:
        """Return the newest line of every path that has a history."""
        return list({line.path: line for line in self._lines}.values())

    async def begun(self) -> datetime | None:
        """Return when the first state of a page was kept."""
        return min((state.since for state in self._states.values()), default=None)

    def _keep(self, path: str, raw: bytes, at: datetime) -> str:
        revision = revision_of(content_digest(raw))
        known = self._states.setdefault((path, revision), _State(raw, at, at))
        known.at = max(known.at, at)
        return revision

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes of that state of the page, also from before it was moved."""
        for name in self._names(path):
            state = self._states.get((name.path, revision))
            if state is not None and (name.until is None or state.since <= name.until):
                return state.raw
        return None

    def _names(self, path: str) -> Sequence[_MemoryName]:
        """Return every path that the page had, the present one first."""
        names = [_MemoryName(path, FOR_EVER, None)]
        for name in names:  # which grows meanwhile
            for line in self._lines:
                if line.path == name.path and line.id < name.below and line.moved_from is not None:
                    # Before all lines of that act: it may itself record that the old path is empty.
                    first = next(other.id for other in self._lines if other.seq == line.seq)
                    found = _MemoryName(line.moved_from, first, line.at)
                    if found not in names:
                        names.append(found)
        return names

    async def content_sizes(self) -> Mapping[str, int]:
        """Return the size of every state that is kept, by revision."""
        return {revision: len(state.raw) for (_, revision), state in self._states.items()}

    async def recent(self, path: str, *, limit: int) -> Sequence[KeptState]:
        """Return the states of the page's history, newest first, each once."""
        found: dict[str, KeptState] = {}
        for line in await self.history(path, limit=len(self._lines)):
            if line.revision is not None:
                found.setdefault(line.revision, KeptState(line.revision, line.at, line.how))
        return list(found.values())[:limit]

    async def intend(self, intent: Intent, contents: Sequence[bytes]) -> None:
        """Record the begin of an act, and keep the bytes before and after."""
        given = {revision_of(content_digest(raw)): raw for raw in contents}
        for path, revision in states_given(intent, given):
            self._keep(path, given[revision], intent.at)
        self._intents[intent.id] = intent

    async def intents(self) -> Sequence[Intent]:
        """Return every act begun and neither committed nor dropped, oldest first."""
        return sorted(self._intents.values(), key=lambda intent: (intent.at, intent.id))

    async def drop(self, intent_id: str) -> None:
        """Forget an act that did not happen."""
        self._intents.pop(intent_id, None)

    async def commit(self, entry: HistoryEntry, *, intent_id: str | None = None) -> AuditRecord:
        """Record the act and end its intent."""
        require_sound(entry)
        if intent_id is not None and intent_id not in self._intents:
            raise UnknownIntent(intent_id)
        self._carry_out(entry)
        self._intents.pop(intent_id or "", None)
        record = self.append(entry)
        self._remember(entry, record.seq)
        self._track(entry)
        self._flag(entry)
        self._tell("doc", paths_to_tell(entry))
        return record

    def _carry_out(self, entry: HistoryEntry) -> None:
        proposal = self._proposals.get(carries_out(entry) or "")
        if proposal is None:
            return
        if proposal.state != "approved":
            raise ProposalSettled(proposal.id)
        self._proposals[proposal.id] = replace(proposal, state="executed", ended_at=entry.at)
        self._tell("proposal", [proposal.id])

    def append(self, entry: HistoryEntry) -> AuditRecord:
        """Add the next link to the chain, and nothing else."""
        seq, previous = (self._records[-1].seq, self._records[-1].digest) if self._records else (0, START)
        body = body_of(entry, seq + 1)
        self._records.append(AuditRecord(seq + 1, body, digest_of(previous, body)))
        return self._records[-1]

    def _remember(self, entry: HistoryEntry, seq: int) -> None:
        for change in pages_changed(entry):
            self._lines.append(history_line(len(self._lines) + 1, entry, change, seq))
            for revision in (change.before, change.after):
                state = self._states.get((change.path, revision or ""))
                if state is not None:
                    state.in_history = True

    def _track(self, entry: HistoryEntry) -> None:
        carried = {new: self._tracked.get(old) for new, old in moves(entry).items()}
        for path in (*carried.keys(), *moves(entry).values()):
            self._tracked.pop(path, None)
        self._tracked.update({path: tracked for path, tracked in carried.items() if tracked is not None})
        for path, revision in origins_at(entry).items():
            self._tracked[path] = Tracked(revision, tuple(entry.origins[path]))

    def _flag(self, entry: HistoryEntry) -> None:
        moved = {old: new for new, old in moves(entry).items()}
        for position, flag in enumerate(self._flags):
            if flag.settled_at is None or flag.settlement is not None:
                sides = (flag.contradiction.existing, flag.contradiction.new)
                existing, new = (replace(side, path=moved.get(side.path, side.path)) for side in sides)
                self._flags[position] = replace(
                    flag, contradiction=replace(flag.contradiction, existing=existing, new=new)
                )
        for contradiction in entry.contradictions:
            known = {_pages_and_pair(flag.contradiction) for flag in self._flags if flag.settled_at is None}
            if _pages_and_pair(contradiction) not in known:
                by, rank = storable(entry.actor.principal), rank_of(contradiction)
                self._flags.append(Flag(len(self._flags) + 1, entry.at, by, contradiction, rank))

    async def history(self, path: str, *, limit: int, before: int | None = None) -> Sequence[Revision]:
        """Return the page's history, newest first, from the line after `before`, also from before it was moved."""
        below: Mapping[str, int] = {}
        for name in self._names(path):
            below = {**below, name.path: max(name.below, below.get(name.path, 0))}
        found = [line for line in self._lines if line.id < below.get(line.path, 0)]
        return [line for line in reversed(found) if before is None or line.id < before][:limit]

    async def lines_after(
        self, after: int, *, limit: int, since: datetime | None = None, moves: bool = False
    ) -> Sequence[Revision]:
        """Return the lines of all pages' histories after the line `after`, oldest first."""
        found = [line for line in self._lines if line.id > after and (since is None or line.at >= aware(since))]
        return [line for line in found if line.moved_from is not None or not moves][:limit]

    async def timeline(
        self, wanted: ActsWanted, *, limit: int, after: tuple[datetime, int] | None = None
    ) -> Sequence[RecordedAct]:
        """Return the acts on all pages, newest first."""
        for at in (wanted.since, wanted.until):
            if at is not None:
                aware(at)
        acts = [act for act in self._acts() if self._is_wanted(act, wanted)]
        acts.sort(key=lambda act: act.place, reverse=True)
        return [act for act in acts if after is None or act.place < after][:limit]

    async def act(self, name: str) -> RecordedAct | None:
        """Return the act with this name."""
        return next((act for act in self._acts() if act_name(act.lines[0]) == name), None)

    def _acts(self) -> Sequence[RecordedAct]:
        found: dict[object, list[Revision]] = {}
        for line in self._lines:
            found.setdefault(("outside", line.id) if line.seq is None else line.seq, []).append(line)
        records = {record.seq: record for record in self._records}
        return [recorded_act(lines, records.get(lines[0].seq or 0)) for lines in found.values()]

    def _is_wanted(self, act: RecordedAct, wanted: ActsWanted) -> bool:
        first, who, at = act.lines[0], wanted.who, act.lines[0].at
        if wanted.page is not None:
            below: dict[str, int] = {}
            for name in self._names(wanted.page):
                below[name.path] = max(name.below, below.get(name.path, 0))
            if not any(line.id < below.get(line.path, 0) for line in act.lines):
                return False
        paths = [path for line in act.lines for path in (line.path, line.moved_from) if path is not None]
        if wanted.folder and not any(path.startswith(f"{wanted.folder}/") for path in paths):
            return False
        if who == "" and first.how != "outside" and first.tool != FOLLOW:
            return False
        if who:
            by = first.principal
            made = (
                by in (who, *(f"{who}@{place}" for place in PERSONS))
                or by.endswith(f"@{who}")
                or by.startswith(f"{who} (")
            )
            if not made and not act.decision.startswith(f"{APPROVED_BY}{who} ("):
                return False
        return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)

    async def tracked(self, path: str) -> Tracked | None:
        """Return the known origins of the page's units."""
        return self._tracked.get(path)

    async def told_by(self, sources: Collection[str], *, limit: int) -> Sequence[str]:
        """Return present paths of pages with an act from one of these sources in their history, newest act first."""
        acts = [
            line for line in reversed(self._lines) if line.source in sources and source_kind(line.source) in LOOKED_FOR
        ]
        found = dict.fromkeys(self._place_now(line.path, line.seq) for line in acts if line.seq is not None)
        return list(found)[:limit]

    def _place_now(self, path: str, seq: int) -> str:
        """Return the present path of the page that was at `path` after that act."""
        for line in self._lines:
            if line.moved_from == path and line.seq is not None and line.seq > seq:
                return self._place_now(line.path, line.seq)
        return path

    async def flags(
        self, path: str | None, *, limit: int, after: tuple[int, int] | None = None, dismissed: bool = False
    ) -> Sequence[Flag]:
        """Return open or dismissed contradictions with a side at or below `path`, highest rank first."""
        found = [
            flag
            for flag in sorted(self._flags, key=lambda flag: (-flag.rank, -flag.id))
            if flag.settled_at is None
            and (flag.dismissal is not None) == dismissed
            and (after is None or (flag.rank, flag.id) < after)
            and any(within(side.path, path or "") for side in (flag.contradiction.existing, flag.contradiction.new))
        ]
        return found[:limit]

    async def flag(self, flag_id: int) -> Flag | None:
        """Return the contradiction, whether it is open or not."""
        return next((flag for flag in self._flags if flag.id == flag_id), None)

    async def dismissals(self, path: str) -> Mapping[bytes, Dismissal]:
        """Return the newest dismissal of each pair of statements of this page."""
        ruled = [(flag.dismissal.at, flag.id, flag) for flag in self._flags if flag.dismissal is not None]
        found = [(flag.contradiction, flag.dismissal) for _, _, flag in sorted(ruled, key=lambda one: one[:2])]
        return {one.pair: word for one, word in found if word and {one.existing.path, one.new.path} == {path}}

    async def dismiss(self, flag_id: int, dismissal: Dismissal, entry: HistoryEntry) -> bool:
        """Dismiss an open contradiction and record the act."""
        clean = replace(dismissal, by=storable(dismissal.by), reason=storable(dismissal.reason))
        return self._rule(flag_id, clean, entry)

    async def reopen(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Reopen a dismissed contradiction and record that."""
        return self._rule(flag_id, None, entry)

    def _rule(self, flag_id: int, dismissal: Dismissal | None, entry: HistoryEntry) -> bool:
        for position, flag in enumerate(self._flags):
            can = flag.settled_at is None and (flag.dismissal is None) == (dismissal is not None)
            if flag.id == flag_id and can:
                self._carry_out(entry)
                self._flags[position] = replace(flag, dismissal=dismissal)
                self.append(entry)
                return True
        return False

    async def settle(self, flag_ids: Sequence[int], settlement: Settlement) -> None:
        """Close these contradictions."""
        at = aware(settlement.at)
        clean = replace(settlement, at=at, by=storable(settlement.by), reason=storable(settlement.reason))
        for position, flag in enumerate(self._flags):
            opened = flag.settled_at is None and flag.dismissal is None
            noticed = flag.settlement is not None and flag.settlement.how == "changed" and settlement.how != "changed"
            if flag.id in flag_ids and (opened or noticed):
                self._flags[position] = replace(flag, settled_at=at, settlement=clean)

    async def settled(self, path: str | None, *, limit: int) -> Sequence[Flag]:
        """Return settled contradictions with a side at or below `path`, newest first."""
        found = [(flag.settlement.at, flag.id, flag) for flag in self._flags if flag.settlement is not None]
        return [
            flag
            for _, _, flag in sorted(found, key=lambda one: one[:2], reverse=True)
            if any(within(side.path, path or "") for side in (flag.contradiction.existing, flag.contradiction.new))
        ][:limit]

    async def revive(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Open a settled contradiction again and record that."""
        known = {_pages_and_pair(flag.contradiction) for flag in self._flags if flag.settled_at is None}
        for position, flag in enumerate(self._flags):
            can = flag.settled_at is not None and _pages_and_pair(flag.contradiction) not in known
            if flag.id == flag_id and can:
                self._carry_out(entry)
                self._flags[position] = replace(flag, settled_at=None, settlement=None)
                self.append(entry)
                return True
        return False

    async def records(self, *, after: int = 0, limit: int = 1000) -> Sequence[AuditRecord]:
        """Return audit records, oldest first."""
        return [record for record in self._records if record.seq > after][:limit]

    async def scan(self, wanted: AuditScan, *, limit: int) -> Sequence[AuditRecord]:
        """Return the newest records that match, newest first."""

        def matches(record: AuditRecord) -> bool:
            at, body = recorded_at(record), record.body
            in_time = at is None or (
                (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)
            )
            has_parts = all(any(text in body for text in group) for group in wanted.parts)
            has_words = all(any(text.lower() in body.lower() for text in group) for group in wanted.words)
            return in_time and has_parts and has_words

        stretch = [record for record in self._records if wanted.down_to <= record.seq < wanted.before]
        return [record for record in reversed(stretch) if matches(record)][:limit]

    async def chain_end(self) -> tuple[int, bytes]:
        """Return `seq` and digest of the newest record."""
        return (self._records[-1].seq, self._records[-1].digest) if self._records else (0, START)

    async def forget(self, *, seen_before: datetime, limit: int = 1000) -> int:
        """Drop states that were only `seen`, last before then, the oldest first, and return how many."""
        aware(seen_before)
        begun = {
            (change.path, revision)
            for intent in self._intents.values()
            for change in intent.entry.changes
            for revision in (change.before, change.after)
        }
        old = [key for key, state in self._states.items() if not state.in_history and state.at < seen_before]
        dropped = sorted((self._states[key].at, key) for key in old if key not in begun)[:limit]
        for _, key in dropped:
            del self._states[key]
        return len(dropped)


def _pages_and_pair(contradiction: Contradiction) -> tuple[frozenset[str], bytes]:
    return frozenset((contradiction.existing.path, contradiction.new.path)), contradiction.pair
