"""The questions of merges, answered by a host: collected in random order and without their kind, judged elsewhere, and sent back.

Changed facts, rewordings and new facts are sent as evidence through a real client. Each pair that a merge asks about is written
to a file. With the judgements of a host in another, the same calls are made with `answers`, as the tool's description says.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge.merge.claims.statements import keeps_words
from knowledge.merge.model import section_name
from mcp_server.app.settings.settings import Settings
from tests.benchmarks.history.facts import Change, StatementChange, changes_of
from tests.benchmarks.history.repository import Repository
from tests.support.hosts.writers import Refused, writing
from tests.support.knowledge_bases.folders import write

SOURCE = "code:src/a.py@1"
MOST_CALLS = 4
"""A call is repeated with more answers until nothing is asked: several statements of one text may be asked about in turn."""

Judgements = Mapping[tuple[str, str], str]
"""The judgement of each existing and new statement: same, replaces, both or contradicts."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A change that was sent: the first answer, all questions, their judgements, the last answer, and whether words were lost."""

    change: StatementChange
    first: dict[str, Any]
    questions: Sequence[dict[str, Any]]
    judged: Sequence[str]
    last: dict[str, Any]
    lost: bool

    @property
    def outcome(self) -> str:
        """What became of it, in the first word that applies."""
        return outcome_of(self.last)


def outcome_of(answer: Mapping[str, Any]) -> str:
    """Return the most telling part of an answer of kb_merge."""
    if answer.get("questions"):
        return "question"
    words = {block["verdict"] for block in answer["blocks"]}
    order = ("flag", "ask", "update", "retain", "integrate", "unchanged")
    return next((word for word in order if word in words), "nothing")


def sample(repository: Repository, counts: Mapping[Change, int]) -> Iterator[StatementChange]:
    """Yield so many changes of each kind, the newest first."""
    left = Counter(counts)
    for change in changes_of(repository.edits(), max(counts.values())):
        if left[change.kind] > 0:
            left[change.kind] -= 1
            yield change


async def exchanged(changes: Iterable[StatementChange], judgements: Judgements, folder: Path) -> Sequence[Exchange]:
    """Send each change to a page of its own, and again with the judgements of what was asked."""
    root = write(folder / "kb", {"index.md": "# Pages\n"})
    found = []
    async with writing(Settings(kb=root, state_dir=folder / "state", open_browser=False)) as host:
        for number, change in enumerate(changes):
            name = f"page-{number}.md"
            write(root, {name: change.before})
            call = {
                "content": change.new,
                "source": SOURCE,
                "section": section_name(change.section) or None,
                "base_revision": await host.revision(name),
            }
            given = {key: value for key, value in call.items() if value is not None}
            asked: list[dict[str, Any]] = []
            judged: list[str] = []
            try:
                first = last = await host.merge(name, **given)
                for _ in range(MOST_CALLS):
                    new = [one for one in last["questions"] if (one["existing"], one["new"]) in judgements]
                    asked += [one for one in last["questions"] if one not in asked]
                    if not new or all(one in asked[: len(judged)] for one in new):
                        break
                    judged = [judgements.get((one["existing"], one["new"]), "") for one in asked]
                    answers = [
                        {"existing": one["existing"], "new": one["new"], "answer": word}
                        for one, word in zip(asked, judged, strict=True)
                        if word
                    ]
                    last = await host.merge(name, **given, answers=answers)
                if last["proposal"]:
                    # A host may have twenty proposals that wait for a person.
                    await host.call("proposal_withdraw", proposal_id=last["proposal"]["id"])
            except Refused:
                continue
            lost = not keeps_words(host.text(name), change.before)
            found.append(Exchange(change, first, asked, judged, last, lost))
    return found


def write_questions(found: Iterable[Exchange], file: Path, seed: int) -> int:
    """Write the pairs that are asked about, in random order and without their kind; return how many."""
    pairs = {(one["existing"], one["new"]): one for exchange in found for one in exchange.questions}
    listed = list(pairs.values())
    random.Random(seed).shuffle(listed)
    file.write_text(json.dumps(listed, indent=1, ensure_ascii=False), encoding="utf-8")
    return len(listed)


def read_judgements(file: Path) -> Judgements:
    """Return the judgements of a file: a list of objects with `existing`, `new` and `answer`."""
    return {(one["existing"], one["new"]): one["answer"] for one in json.loads(file.read_text(encoding="utf-8"))}


HEAD = (
    "| change | sent | by rules: flagged | update | beside | said already | no place | not written | asked | judged same | both | "
    "replaces | contradicts | end: flagged | of these proposed | update | beside | said already | words removed |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def table(found: Sequence[Exchange]) -> str:
    """Return a row for each kind of change."""
    rows = []
    for kind in ("fact", "rewording", "new"):
        of = [one for one in found if one.change.kind == kind]
        rules = Counter(outcome_of(one.first) for one in of)
        asked = [one for one in of if outcome_of(one.first) == "question"]
        words = Counter(word for one in asked for word in one.judged)
        end = Counter(one.outcome for one in of)
        cells = (
            len(of),
            *(rules[word] for word in ("flag", "update", "integrate", "unchanged", "ask", "retain", "question")),
            *(words[word] for word in ("same", "both", "replaces", "contradicts")),
            end["flag"],
            sum(one.last["proposal"] is not None for one in of),
            *(end[word] for word in ("update", "integrate", "unchanged")),
            sum(one.lost for one in of),
        )
        rows.append(f"| {kind} | {' | '.join(map(str, cells))} |")
    return "\n".join(rows)
