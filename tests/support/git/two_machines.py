"""Two machines, each with its own clone of a bare repository, its own state, and a host that writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.sync.changed_files import CommitAuthor
from knowledge.sync.page_arrival import PageArrival
from knowledge.sync.sync import Sync, SyncOutcome
from mcp_server.app.factories.act_commits import commits_of
from mcp_server.app.factories.sync import sync_of
from mcp_server.app.settings.settings import Settings
from tests.support.git.repositories import PAGES, Repository, made
from tests.support.hosts.writers import Writer, writing


@dataclass(frozen=True)
class Machine:
    """A clone, and a host of the server there. The server commits only when it synchronises."""

    kb: Repository
    host: Writer
    sync: Sync
    conflicts: list[PageArrival] = field(default_factory=list)

    async def synchronise(self) -> SyncOutcome:
        """Run `knowledge-forge sync`."""
        outcome = await self.sync.run(self.note)
        assert self.kb.status == [], "the working tree differs from the newest commit"
        return outcome

    async def note(self, arrival: PageArrival, _author: CommitAuthor) -> None:
        self.conflicts.append(arrival)

    async def edit(self, path: str, old: str, new: str) -> None:
        """Replace some text of a page as a host does."""
        base = await self.host.revision(path)
        answer = await self.host.merge(path, self.host.text(path).replace(old, new), base_revision=base)
        assert answer["status"] == "done", answer

    def files(self) -> Mapping[str, str]:
        """Return the pages by path."""
        pages = sorted(self.kb.folder.rglob("*.md"))
        return {page.relative_to(self.kb.folder).as_posix(): page.read_text(encoding="utf-8") for page in pages}


def cloned(bare: Path, folder: Path, person: str) -> Repository:
    """Return a clone, in which that person commits."""
    Repository(bare.parent).git("clone", "-q", str(bare), str(folder))
    clone = Repository(folder)
    clone.git("config", "user.name", person)
    clone.git("config", "user.email", f"{person.split(maxsplit=1)[0].lower()}@example.org")
    return clone


def bare_of(folder: Path, pages: Mapping[str, str] | None = None) -> Path:
    """Return a new bare repository with these pages in one commit."""
    seed = made(folder / "seed", PAGES if pages is None else pages)
    seed.git("clone", "-q", "--bare", str(seed.folder), str(folder / "remote.git"))
    return folder / "remote.git"


@asynccontextmanager
async def machine_at(clone: Repository, host: str) -> AsyncIterator[Machine]:
    """Start a server at this clone."""
    settings = Settings(kb=clone.folder, state_dir=clone.folder.parent / f"state-{clone.folder.name}", git="off")
    async with writing(settings, host=host) as connected:
        base = connected.app.base
        await commits_of(base).begin()
        yield Machine(clone, connected, sync_of(base, connected.app.services.load_writing()))


@asynccontextmanager
async def two_machines(folder: Path, pages: Mapping[str, str] | None = None) -> AsyncIterator[tuple[Machine, Machine]]:
    """Start two machines: Ann's, with the host `ada`, and Bob's, with the host `bee`."""
    bare = bare_of(folder, pages)
    async with AsyncExitStack() as stack:
        ann = await stack.enter_async_context(machine_at(cloned(bare, folder / "ann", "Ann Example"), "ada"))
        bob = await stack.enter_async_context(machine_at(cloned(bare, folder / "bob", "Bob Sample"), "bee"))
        yield ann, bob
