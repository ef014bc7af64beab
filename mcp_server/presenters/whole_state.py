"""A whole state as people see it: where it is, what it holds, its backups, and what replacing or moving it would do and has done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit, urlunsplit

from knowledge.state.ports import StateSize
from knowledge.state.transfer.move import Contents

MAIN_TABLES: Mapping[str, str] = {
    "audit": "records in the audit",
    "revision": "revisions of pages",
    "contradiction": "contradictions",
    "enrolment": "registered hosts",
    "passkey": "passkeys",
    "proposal": "proposals",
    "journey": "journeys",
    "run": "runs",
}
"""The tables whose rows mean something to a person, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A backup that lies in the state folder. `id` names it in an address, however its file is named."""

    id: str
    path: Path
    size_bytes: int
    at: datetime
    before_restore: bool


@dataclass(frozen=True, slots=True)
class StateOverview:
    """Where the state is, its size, its backups, and where new ones are saved. `others` are other processes that use it, if known."""

    place: str
    in_file: bool
    size: StateSize
    folder: Path
    backups: Sequence[BackupFile]
    others: Sequence[int]


@dataclass(frozen=True, slots=True)
class SavedState:
    """A backup that was made: its rows and files, and what it leaves out."""

    file: Path
    size_bytes: int
    saved: Contents
    files: Sequence[str]
    left_out: Sequence[str]


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """What restoring a backup would do. `digest` is that of the file; `going_on` are runs in it that a server would continue."""

    file: Path
    digest: str
    size_bytes: int
    at: datetime
    saved: Contents
    there: Contents
    files: Sequence[str]
    going_on: int


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """What moving the state would do. `url` may have a password; None is the file in the state folder. `found` is what is there."""

    url: str | None = field(repr=False)
    schema: str
    place: str
    step: Literal["copy", "leave", "finish", "done"]
    there: Contents
    found: Contents | None


PlannedChange = PlannedRestore | PlannedMove


@dataclass(frozen=True, slots=True)
class ChangedState:
    """The outcome of a change of the whole state. `problem` says why nothing was changed, "" if it was."""

    planned: PlannedChange
    problem: str = ""
    arrived: Contents | None = None
    kept: Path | None = None
    files: Sequence[str] = ()
    files_kept: Sequence[str] = ()
    files_problem: str = ""

    @property
    def sentence(self) -> str:
        """What happened, in one sentence."""
        planned = self.planned
        if self.problem:
            return f"The state is as it was: {self.problem}"
        if isinstance(planned, PlannedRestore):
            return f"The state was restored from {planned.file}."
        return f"The state is now in {planned.place}."


def table_counts(states: Iterable[Contents]) -> Mapping[str, Sequence[int]]:
    """Return the number of rows in each of the states, for every table that has rows in at least one of them."""
    found = list(states)
    counts = {name: [one.rows[name] for one in found] for name in found[0].rows} if found else {}
    return {name: each for name, each in counts.items() if any(each)}


def main_counts(states: Iterable[Contents]) -> Mapping[str, Sequence[int]]:
    """Return those counts that mean something to a person, by what is counted."""
    counts = table_counts(states)
    return {words: counts[name] for name, words in MAIN_TABLES.items() if name in counts}


def chain_line(found: Contents) -> str:
    """Return a sentence about the audit chain."""
    chain = found.chain
    if chain.broken is not None:
        return f"Audit chain: {chain.records:,} records, broken at record {chain.broken} (knowledge-forge audit verify says how)"
    if not chain.records:
        return "Audit chain: no records"
    return f"Audit chain: {chain.records:,} records, all intact; it ends with {chain.seq}:{chain.digest}"


def next_after_move(schema: str | None) -> str:
    """Return what a person does after a move to that schema, None for the file."""
    if schema is None:
        return (
            "remove FORGE_DATABASE_URL and FORGE_DATABASE_SCHEMA from the environment and from forge.toml, run `knowledge-forge "
            "install HOST` again for each host, because its entry names the database, and check with `knowledge-forge doctor`."
        )
    return (
        f"set FORGE_DATABASE_URL to the URL that you gave (with its password, if it has one) and FORGE_DATABASE_SCHEMA to "
        f"{schema}, in the environment or in forge.toml, for every server and terminal; run `knowledge-forge install HOST` "
        "again for each host; and check with `knowledge-forge doctor`."
    )


def with_password(url: str, password: str) -> str:
    """Return a database's URL with that password, which was typed apart from it; "" leaves the URL as it is."""
    parts = urlsplit(url)
    user, _, hosts = parts.netloc.rpartition("@")
    if not password or not user:
        return url
    netloc = f"{user.partition(':')[0]}:{quote(password, safe='')}@{hosts}"
    return urlunsplit(parts._replace(netloc=netloc))


def setting_lines(url: str, schema: str) -> str:
    """Return the lines for `forge.toml` that name the database; PASSWORD stands in for a password."""
    parts = urlsplit(url)
    user, _, hosts = parts.netloc.rpartition("@")
    who = f"{user.partition(':')[0]}:PASSWORD@" if ":" in user else f"{user}@" if user else ""
    # What else is in the query may be a password, too.
    query = "" if "password" in parts.query.lower() else parts.query
    shown = urlunsplit(parts._replace(netloc=f"{who}{hosts}", query=query))
    return f'database_url = "{shown}"\ndatabase_schema = "{schema}"\n'
