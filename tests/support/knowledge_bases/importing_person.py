"""A person who exports and imports: a knowledge base, and a host that may write to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import enrol
from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.folders import write


@dataclass(frozen=True)
class ImportingPerson(Person):
    """A person whose commands run with the secret of a host at level 3, also those without a terminal. `more` are variables."""

    secret: str = ""
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        url, schema = self.more.get("FORGE_DATABASE_URL"), self.more.get("FORGE_DATABASE_SCHEMA")
        return replace(super().settings, database_url=url, database_schema=schema or super().settings.database_schema)

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, **self.more, **({"FORGE_ENROLMENT": self.secret} if self.secret else {})}

    @property
    def themselves(self) -> Person:
        """The person without that host."""
        return replace(self, secret="")


def importing_person(
    folder: Path, pages: dict[str, str] | None = None, more: Mapping[str, str] | None = None
) -> ImportingPerson:
    """Return a person with these pages and variables."""
    (folder / "kb").mkdir(parents=True, exist_ok=True)
    if pages:
        write(folder / "kb", pages)
    person = ImportingPerson(folder, more=more or {})
    secret = person.asked(lambda state: enrol(state, "importer", now=utc_now()))
    granted = person.here("trust", "grant", "importer", "3")
    assert granted.returncode == 0, granted.stderr
    return replace(person, secret=secret)


def imported(person: Person, kind: str, source: Path, *more: str, code: int = 0) -> dict[str, Any]:
    """Import the source without asking and return what the command says about it."""
    done = person.here("import", kind, str(source), "--yes", "--json", *more)
    assert done.returncode == code, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def statuses(answer: dict[str, Any]) -> dict[str, str]:
    """Return the status of each page by path."""
    return {page["path"]: page["status"] for page in answer["pages"]}


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of the folder that is not hidden, by path."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    named = ((file.relative_to(folder).as_posix(), file.read_bytes()) for file in files)
    return {path: raw for path, raw in named if not any(part.startswith(".") for part in path.split("/"))}
