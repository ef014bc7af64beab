"""Each change of pages becomes one commit, and everything else in the repository stays as the person left it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.git.act_commits import LEASE, LEASE_S, ActCommits, CommitsLeft
from knowledge.git.commit_message import act_of
from knowledge.history.audit.chain import fields_of
from mcp_server.app.factories.act_commits import commits_of
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from tests.support.git.repositories import PAGES, PERSON, Repository, made, repository
from tests.support.hosts.reviewers import reviewing
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
        commits = commits_of(host.app.base)
        await commits.begin()
        yield host, commits


async def edit(host: Writer, old: str, new: str, path: str = PLAN, **more: object) -> None:
    """Replace some text of a page as a host does."""
    base = await host.revision(path)
    await host.merge(path, host.text(path).replace(old, new), base_revision=base, **more)


async def committed(commits: ActCommits) -> int:
    """Commit everything that is pending and return how many commits that took."""
    made = 0
    while True:
        left = await commits.commit_pending()
        made += left.made
        if "just begun" not in str(left.waiting):
            break
        await anyio.sleep(0.1)
    assert left == CommitsLeft(made=left.made), left
    return made


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


async def test_a_move_with_its_links_a_deletion_and_their_undo_are_one_commit_each(repository: Repository) -> None:
    async with connected(repository) as (host, commits):
        await host.call("kb_move", path=PLAN, to="notes/roadmap.md")
        await host.call("kb_delete", path="notes/team.md", base_revision=await host.revision("notes/team.md"))
        assert await committed(commits) == 2
        assert repository.subjects()[:2] == ["Delete notes/team.md", f"Move {PLAN} to notes/roadmap.md and 1 more page"]
        assert sorted(repository.changed("HEAD~1")) == ["index.md", PLAN, "notes/roadmap.md"]
        changes = (await host.app.services.timeline.changes(limit=10)).changes
        moved = next(change for change in changes if change.tool == "kb_move")
        undo = host.app.services.undo
        plan = await undo.plan(await undo.of_change(moved.id), by="ann@page")
        await undo.execute(plan, decision="approved by ann (page, by word)")
        assert await committed(commits) == 1
    assert repository.subjects()[0].startswith(f"Undo change {moved.id} in ")
    assert (repository.trailers()["Forge-Host"], repository.log("%an <%ae>")[0].strip()) == ("page", PERSON)
    assert repository.git("diff", "--name-status", "HEAD~3", "HEAD").split() == ["D", "notes/team.md"]
    assert repository.status == []


async def test_an_ignored_page_and_one_of_another_repository_get_no_commit(repository: Repository) -> None:
    repository.write(".gitignore", "private/\n")
    repository.commit("Ignore")
    inner = made(repository.folder / "inner", {"a.md": "# A\n"})
    async with connected(repository) as (host, commits):
        await host.merge("private/diary.md", "# Diary\n\nDear diary.\n")
        await host.merge("inner/b.md", "# B\n\nText.\n")
        assert await committed(commits) == 0
    assert (repository.subjects(), inner.subjects()) == (["Ignore", "Begin"], ["Begin"])


async def test_a_text_that_a_stash_took_away_gets_no_commit(repository: Repository) -> None:
    repository.write("staged.md", "# Staged\n")
    repository.git("add", "staged.md")
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        assert "staged" in await waits(commits)
        repository.git("stash", "-q")
        assert await committed(commits) == 0
        repository.git("stash", "pop", "-q", "--index")
        assert host.text(PLAN) == LATER
    assert repository.subjects() == ["Begin"]
    assert sorted(repository.status) == [f" M {PLAN}", "A  staged.md"]


async def test_an_act_undone_before_its_commit_is_two_commits(repository: Repository) -> None:
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        await edit(host, "Monday", "Friday")
        assert await committed(commits) == 2
    assert repository.git("diff", "--name-only", "HEAD~2", "HEAD") == ""
    assert repository.status == []


async def test_several_servers_commit_each_act_once_and_in_order(repository: Repository) -> None:
    settings = Settings(
        kb=repository.folder, state_dir=repository.folder.parent / "state", open_browser=False, git="commit"
    )
    async with AsyncExitStack() as stack:
        hosts = [
            await stack.enter_async_context(writing(settings, host=name)) for name in ("editor", "desktop", "terminal1")
        ]
        async with anyio.create_task_group() as tasks:
            for number, host in enumerate(hosts):
                tasks.start_soon(several, host, number)
        ledger = hosts[0].app.base.state.ledger
        acts = [r.seq for r in await ledger.records(limit=1000) if act_of(r.seq, fields_of(r)) is not None]
    done = [int(line) for line in repository.log("%(trailers:key=Forge-Act,valueonly)") if line.strip()]
    assert done == acts[::-1]
    assert repository.status == []


async def test_a_process_that_slept_longer_than_its_lease_commits_nothing_beside_the_next_one(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = timedelta()
    async with connected(repository) as (host, commits):
        state = host.app.base.state
        monkeypatch.setattr(commits, "_now", lambda: utc_now() + later)
        for day in ("Monday", "Tuesday"):
            await edit(host, "Friday" if day == "Monday" else "Monday", day)
        commit = commits._commit

        async def committed_before_a_sleep(*given: Any) -> bool:
            nonlocal later
            done = await commit(*given)
            later += timedelta(seconds=LEASE_S + 1)
            assert await state.acquire_lease(LEASE, "another process", now=utc_now() + later, ttl_s=LEASE_S)
            return done

        with monkeypatch.context() as sleepy:
            sleepy.setattr(commits, "_commit", committed_before_a_sleep)
            left = await commits.commit_pending()
        assert (left.made, left.acts, str(left.waiting)) == (1, 1, "another server process makes the commits now")
        assert repository.subjects() == [f"Edit {PLAN}", "Begin"]
        await state.release_lease(LEASE, "another process")
        assert await committed(commits) == 1
    assert repository.subjects() == [f"Edit {PLAN}", f"Edit {PLAN}", "Begin"]


async def several(host: Writer, number: int) -> None:
    """Make a page and add to it a few times."""
    path = f"by-{number}.md"
    for turn in range(5):
        await host.merge(path, f"# By {number}\n\n" + "".join(f"Line {n}.\n\n" for n in range(turn + 1)), section="*")


async def test_an_approved_proposal_is_a_commit_that_names_it_and_who_approved_it(repository: Repository) -> None:
    settings = Settings(
        kb=repository.folder, state_dir=repository.folder.parent / "state", open_browser=False, git="commit"
    )
    async with writing(settings, level=2) as host, reviewing(settings) as person:
        proposed = await host.merge(PLAN, LATER, base_revision=await host.revision(PLAN))
        assert repository.subjects() == ["Begin"]
        ended = await person.approve(proposed["proposal"]["id"])
        assert ended.state == "executed"
    trailers = repository.trailers()
    assert (trailers["Forge-Host"], trailers["Forge-Proposal"]) == ("writer", ended.id)
    assert trailers["Forge-Approved-By"].startswith("ann")
    assert (repository.subjects(), repository.status) == ([f"Edit {PLAN}", "Begin"], [])


async def test_a_knowledge_base_in_a_submodule_commits_in_it_and_not_around_it(repository: Repository) -> None:
    around = made(repository.folder.parent / "around", {"readme.md": "# Around\n"})
    around.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository.folder), "notes")
    around.commit("Add notes")
    inner = Repository(around.folder / "notes")
    inner.git("config", "user.name", "Ann Example")
    inner.git("config", "user.email", "ann@example.org")
    async with connected(repository, inner.folder) as (host, commits):
        await edit(host, "Friday", "Monday")
        assert await committed(commits) == 1
    assert (inner.subjects()[0], inner.status) == (f"Edit {PLAN}", [])
    assert (around.subjects(), around.status) == (["Add notes", "Begin"], [" M notes"])


async def test_commits_follow_a_merge_a_popped_stash_and_another_branch(repository: Repository) -> None:
    colleague = Repository(repository.folder.parent / "clone")
    repository.git("clone", "-q", ".", str(colleague.folder))
    colleague.git("config", "user.name", "Bob")
    colleague.git("config", "user.email", "bob@example.org")
    colleague.write("notes/team.md", "# Team\n\nBob.\n")
    colleague.commit("Bob's")
    async with connected(repository) as (host, commits):
        await edit(host, "Friday", "Monday")
        await committed(commits)
        repository.git("pull", "-q", "--no-rebase", "--no-edit", str(colleague.folder), "main")
        await edit(host, "Monday", "Tuesday")
        repository.git("stash", "-q")
        repository.git("stash", "pop", "-q")
        assert await committed(commits) == 1
        repository.git("switch", "-q", "-c", "work")
        await edit(host, "Tuesday", "Sunday")
        assert await committed(commits) == 1
    subjects = repository.subjects()
    assert (subjects[:2], subjects[2][:12], repository.status) == ([f"Edit {PLAN}"] * 2, "Merge branch", [])
    assert repository.text(PLAN, "main") == PAGES[PLAN].replace("Friday", "Tuesday")
