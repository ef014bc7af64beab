"""Each change of pages becomes one commit, and everything else in the repository stays as the person left it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from knowledge.git.act_commits import ActCommits, CommitsLeft
from mcp_server.app.composition import commits_of
from mcp_server.app.settings.settings import Settings
from tests.support.git.repositories import PAGES, PERSON, Repository, repository
from tests.support.hosts.writers import Writer, writing

__all__ = ["repository"]

PLAN = "notes/plan.md"
LATER = PAGES[PLAN].replace("Friday", "Monday")


@asynccontextmanager
async def connected(repository: Repository, kb: Path | None = None) -> AsyncIterator[tuple[Writer, ActCommits]]:
    """Connect a host to a server that commits only when the test asks for it."""
    settings = Settings(
        kb=kb or repository.folder, state_dir=repository.folder.parent / "state", open_browser=False, git="off"
    )
    async with writing(settings) as host:
        commits = commits_of(host.app.base, Settings(kb=settings.kb, git="commit"))
        assert commits is not None
        await commits.begin()
        yield host, commits


async def edit(host: Writer, old: str, new: str, path: str = PLAN, **more: object) -> None:
    """Replace some text of a page as a host does."""
    base = await host.revision(path)
    await host.merge(path, host.text(path).replace(old, new), base_revision=base, **more)


async def committed(commits: ActCommits) -> int:
    """Commit everything that is pending and return how many commits that took."""
    left = await commits.commit_pending()
    assert left == CommitsLeft(made=left.made), left
    return left.made


async def waits(commits: ActCommits) -> str:
    """Return why commits wait."""
    left = await commits.commit_pending()
    assert left.waiting is not None
    assert (left.made, left.acts) == (0, 1)
    return str(left.waiting)


async def test_an_edit_of_a_host_is_one_commit_that_says_who_did_what(repository: Repository) -> None:
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday", intent="the release moved")
        assert await committed(commits) == 1
        record, _ = await host.app.base.state.ledger.chain_end()
    assert repository.subjects() == [f"Edit {PLAN}", "Begin"]
    assert repository.trailers() == {
        "Forge-Host": "writer",
        "Forge-User": repository.trailers()["Forge-User"],
        "Forge-Source": "user",
        "Forge-Act": str(record),
    }
    assert "Reason: the release moved" in repository.log("%b")[0]
    author, committer = repository.log("%an <%ae>|%cn <%ce>")[0].split("|")
    assert author.startswith("writer on behalf of ")
    assert author.endswith("<writer@knowledge-forge.invalid>")
    assert committer == PERSON
    assert (repository.changed(), repository.text(PLAN), repository.status) == ([PLAN], LATER, [])


async def test_the_server_commits_by_itself_before_it_ends(repository: Repository) -> None:
    settings = Settings(
        kb=repository.folder, state_dir=repository.folder.parent / "state", open_browser=False, git="commit"
    )
    async with writing(settings) as host:
        await edit(host, "Friday", "Monday")
    assert (repository.subjects(), repository.status) == ([f"Edit {PLAN}", "Begin"], [])


async def test_what_lies_about_in_the_working_tree_is_in_no_commit(repository: Repository) -> None:
    repository.write("notes/team.md", "# Team\n\nAnn, Bob and Eve.\n")
    repository.write("draft.md", "# Draft\n")
    before = repository.status
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        await committed(commits)
    assert (repository.changed(), repository.status) == ([PLAN], before)


async def test_a_page_that_an_editor_changed_again_is_committed_as_the_host_left_it(repository: Repository) -> None:
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        newer = LATER.replace("slow", "very slow")
        repository.write(PLAN, newer)
        await committed(commits)
    assert (repository.text(PLAN), repository.status) == (LATER, [f" M {PLAN}"])
    assert (repository.folder / PLAN).read_text() == newer


async def test_edits_of_the_person_in_the_same_page_are_a_commit_of_the_person(repository: Repository) -> None:
    mine = PAGES[PLAN].replace("slow", "very slow")
    repository.write(PLAN, mine)
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        await committed(commits)
    assert repository.subjects() == [f"Edit {PLAN}", f"Edit {PLAN} outside Knowledge Forge", "Begin"]
    assert repository.log("%an <%ae>")[1].strip() == PERSON
    assert (repository.text(PLAN, "HEAD~1"), repository.status) == (mine, [])
    assert repository.git("diff", "--numstat", "HEAD~1", "HEAD").split() == ["1", "1", PLAN]


async def test_while_something_is_staged_commits_wait_and_then_come_in_order(repository: Repository) -> None:
    """A person who staged something is making a commit, which would fail if the branch moved while they write its message."""
    repository.write("notes/team.md", "# Team\n\nAnn, Bob and Eve.\n")
    repository.git("add", "notes/team.md")
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        assert await waits(commits) == "you have staged changes that are not committed"
        assert sorted(repository.status) == [f" M {PLAN}", "M  notes/team.md"]
        repository.git("commit", "-q", "-m", "Eve")
        await edit(host, "Monday", "Tuesday")
        assert await committed(commits) == 2
    assert repository.subjects() == [f"Edit {PLAN}", f"Edit {PLAN}", "Eve", "Begin"]
    assert (repository.text(PLAN, "HEAD~1"), repository.status) == (LATER, [])


async def test_text_that_the_person_committed_meanwhile_is_not_committed_again(repository: Repository) -> None:
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        await edit(host, "Monday", "Tuesday")
        repository.commit("All of it")
        assert await committed(commits) == 0
        assert await commits.pending() == []
    assert (repository.subjects(), repository.status) == (["All of it", "Begin"], [])


@pytest.mark.parametrize("branch", ["detached", "unborn", "index.lock", "MERGE_HEAD", "rebase-merge", "BISECT_LOG"])
async def test_commits_wait_for_a_repository_in_use(repository: Repository, branch: str) -> None:
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        git_dir = repository.folder / ".git"
        match branch:
            case "detached":
                repository.git("checkout", "-q", "--detach")
            case "unborn":
                repository.git("symbolic-ref", "HEAD", "refs/heads/new")
            case _:
                (git_dir / branch).write_text("")
        reason = await waits(commits)
        assert {
            "detached": "detached",
            "unborn": "has no commit",
            "index.lock": "another git",
            "MERGE_HEAD": "a merge is in progress",
            "rebase-merge": "a rebase is in progress",
            "BISECT_LOG": "a bisect is in progress",
        }[branch] in reason
        match branch:
            case "detached":
                repository.git("checkout", "-q", "main")
            case "unborn":
                repository.git("symbolic-ref", "HEAD", "refs/heads/main")
            case _:
                (git_dir / branch).unlink()
        assert await committed(commits) == 1
    assert repository.subjects() == [f"Edit {PLAN}", "Begin"]


async def test_a_person_that_git_does_not_know_is_never_made_up(repository: Repository) -> None:
    repository.git("config", "--unset", "user.email")
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        assert "user.email" in await waits(commits)
        repository.git("config", "user.email", "ann@example.org")
        assert await committed(commits) == 1


async def test_hostile_reasons_and_names_stay_on_their_line(repository: Repository) -> None:
    """A host's text can't add a trailer, hide the subject, or write to a terminal."""
    async with connected(repository) as (host, commits):
        hostile = "why\n\nForge-Host: root\nForge-Act: 1\r\n\x1b[2J\u202eevil"
        await edit(host, "Friday", "Monday", intent=hostile)
        await committed(commits)
    message = repository.git("log", "-1", "--format=%B")
    assert repository.trailers()["Forge-Host"] == "writer"
    assert not {"\x1b", "\r", "\u202e"} & set(message)
    assert [line for line in message.splitlines() if line.startswith("Forge-Host")] == ["Forge-Host: writer"]


async def test_nothing_waits_for_hooks_or_signatures(repository: Repository) -> None:
    """An act that has happened can't be refused by a hook, and nobody is there to type a passphrase."""
    hooks = repository.folder / ".git" / "hooks"
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        (hooks / name).write_text("#!/bin/sh\ntouch ran-$(basename $0)\nexit 1\n")
        (hooks / name).chmod(0o755)
    for setting in ("commit.gpgSign=true", "gpg.program=false", "core.fsmonitor=touch ran-monitor"):
        repository.git("config", *setting.split("=", 1))
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        assert await committed(commits) == 1
    assert not [*repository.folder.rglob("ran-*")]
