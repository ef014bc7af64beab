"""A person who exports and imports: a knowledge base, and a host that may write to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_server.app.knowledge_base import utc_now
from mcp_server.gate.host_registration import enrol
from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.folders import write


@dataclass(frozen=True)
class ImportingPerson(Person):
    """A person whose commands run with the secret of a host at level 3, also those without a terminal."""

    secret: str = ""

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "FORGE_ENROLMENT": self.secret}

    @property
    def themselves(self) -> Person:
        """The person without that host."""
        return Person(self.folder)


def importing_person(folder: Path, pages: dict[str, str] | None = None) -> ImportingPerson:
    """Return a person with these pages."""
    (folder / "kb").mkdir(parents=True)
    if pages:
        write(folder / "kb", pages)
    person = Person(folder)
    secret = person.asked(lambda state: enrol(state, "importer", now=utc_now()))
    granted = person.here("trust", "grant", "importer", "3")
    assert granted.returncode == 0, granted.stderr
    return ImportingPerson(folder, secret)


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
