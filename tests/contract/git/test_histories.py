"""Histories name the commits of changes, and `doctor` the changes without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from knowledge.history.timeline.timeline import Change
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.doctor import examine
from mcp_server.cli.doctor.result import DoctorFinding
from mcp_server.presenters.change import committed
from tests.support.git.repositories import PAGES, Repository, made, repository
from tests.support.hosts.writers import Writer, writing

__all__ = ["repository"]

PLAN = "notes/plan.md"
MANY = 200


def settings_of(repository: Repository, git: str = "commit") -> Settings:
    state = repository.folder.parent / f"state-{repository.folder.name}"
    return Settings(kb=repository.folder, state_dir=state, open_browser=False, git=git)


@asynccontextmanager
async def connected(repository: Repository) -> AsyncIterator[Writer]:
    async with writing(settings_of(repository)) as host:
        yield host


async def edit(host: Writer, old: str, new: str, path: str = PLAN) -> None:
    base = await host.revision(path)
    await host.merge(path, host.text(path).replace(old, new), base_revision=base)


async def listed(host: Writer, path: str = "", *, limit: int = 500) -> Sequence[tuple[Change, str]]:
    """Return changes, newest first, each with its commit as people read it."""
    while (await host.app.services.outside_changes.record()).left:
        pass
    changes = (await host.app.services.timeline.changes(path, limit=limit)).changes
    commits = await host.app.services.change_commits.of(changes)
    return [(change, committed(commits[change.id]) if change.id in commits else "") for change in changes]


async def finding(settings: Settings) -> DoctorFinding | None:
    return next((one for one in await examine(settings) if one.what == "git"), None)


async def test_a_history_names_the_commits_of_hosts_and_of_colleagues(repository: Repository) -> None:
    async with connected(repository) as host:
        await edit(host, "Friday", "Monday")
    async with connected(repository) as host:
        ours = repository.log("%H")[0].strip()
        colleague = Repository(repository.folder.parent / "clone")
        repository.git("clone", "-q", ".", str(colleague.folder))
        colleague.git("config", "user.name", "Bob")
        colleague.git("config", "user.email", "bob@example.org")
        colleague.write(PLAN, colleague.text(PLAN).replace("slow", "late"))
        colleague.git("rm", "-q", "notes/team.md")
        colleague.commit("The vendor")
        await host.revision("notes/team.md")
        repository.git("pull", "-q", str(colleague.folder), "main")
        theirs = repository.log("%H")[0].strip()
        of_plan = await listed(host, PLAN)
        assert [commit for _, commit in of_plan[:2]] == [f"commit {theirs[:9]} by Bob", f"commit {ours[:9]}"]
        assert (of_plan[0][0].outside, of_plan[1][0].by.endswith("@writer")) == (True, True)


async def test_a_switch_of_branches_is_changes_made_outside_that_name_their_commits(repository: Repository) -> None:
    """Many pages at once, there and back; an undo still works afterwards."""
    pages = {f"many/page-{number:03}.md": f"# Page {number}\n\nOne.\n" for number in range(MANY)}
    kb = made(repository.folder.parent / "many", {**PAGES, **pages})
    kb.git("checkout", "-q", "-b", "work")
    for path, text in pages.items():
        kb.write(path, text.replace("One", "Two"))
    kb.commit("Two")
    work = kb.log("%H")[0].strip()
    kb.git("checkout", "-q", "main")
    async with connected(kb) as host:
        for path in pages:
            await host.revision(path)
        kb.git("checkout", "-q", "work")
        changes = await listed(host, "many")
        switched = [(change, commit) for change, commit in changes if commit == f"commit {work[:9]} by Ann Example"]
        assert {change.pages[0].path for change, _ in switched} == set(pages)
        assert all(change.outside for change, _ in switched)
        kb.git("checkout", "-q", "main")
        await edit(host, "Friday", "Monday")
        await listed(host)
        assert kb.status in ([], [f" M {PLAN}"])
        assert all(host.text(path) == text for path, text in pages.items())


async def test_a_commit_is_found_below_any_number_of_newer_ones(repository: Repository) -> None:
    async with connected(repository) as host:
        await host.revision(PLAN)
        repository.write(PLAN, repository.text(PLAN).replace("slow", "late"))
        repository.commit("The vendor")
        theirs = repository.log("%H")[0].strip()
        stream = "".join(
            f"commit refs/heads/main\ncommitter Ann <a@b.c> {1_800_000_000 + number} +0000\ndata 1\nx\n"
            + (f"from {theirs}\n" if not number else "")
            + f"M 644 inline log.txt\ndata {len(str(number))}\n{number}\n"
            for number in range(700)
        )
        repository.git("fast-import", "--quiet", stdin=stream.encode())
        repository.git("reset", "-q", "--hard")
        assert [commit for _, commit in await listed(host, PLAN)][:1] == [f"commit {theirs[:9]} by Ann Example"]


async def test_text_that_only_a_merge_commit_has_is_found_in_it(repository: Repository) -> None:
    async with connected(repository) as host:
        await host.revision(PLAN)
        repository.git("checkout", "-q", "-b", "work")
        repository.write(PLAN, repository.text(PLAN).replace("slow", "late"))
        repository.commit("Late")
        repository.git("checkout", "-q", "main")
        repository.write(PLAN, repository.text(PLAN).replace("slow", "lazy"))
        repository.commit("Lazy")
        repository.git("merge", "-q", "work", code=1)
        repository.write(PLAN, PAGES[PLAN].replace("slow", "late and lazy"))
        repository.commit("Both")
        both = repository.log("%H")[0].strip()
        assert [commit for _, commit in await listed(host, PLAN)][:1] == [f"commit {both[:9]} by Ann Example"]


async def test_commits_of_rewritten_history_are_said_to_be_gone_or_found_by_their_text(repository: Repository) -> None:
    async with connected(repository) as host:
        await edit(host, "Friday", "Monday")
    ours = repository.log("%H")[0].strip()[:9]
    repository.git("commit", "-q", "--amend", "-m", "My own words")
    amended = repository.log("%H")[0].strip()[:9]
    async with connected(repository) as host:
        assert [commit for _, commit in await listed(host, PLAN)][:1] == [f"commit {amended}, rewritten from {ours}"]
        repository.git("reset", "-q", "--hard", "HEAD~1")
        repository.git("commit", "-q", "--allow-empty", "-m", "Something else")
        commits = {change.id: commit for change, commit in await listed(host, PLAN)}
        assert f"commit {ours}, no longer on any branch" in commits.values()
        repository.git("reflog", "expire", "--expire=now", "--all")
        repository.git("gc", "-q", "--prune=now")
        assert {change.id: commit for change, commit in await listed(host, PLAN)} == commits


async def test_without_a_repository_there_are_no_commits(repository: Repository) -> None:
    plain = replace(settings_of(repository), kb=repository.folder.parent / "plain", state_dir=repository.folder / "x")
    plain.kb.mkdir()
    (plain.kb / "a.md").write_text("# A\n")
    async with writing(replace(plain, state_dir=repository.folder.parent / "plain-state")) as host:
        base = await host.revision("a.md")
        await host.merge("a.md", "# A\n\nText.\n", base_revision=base)
        assert {commit for _, commit in await listed(host)} == {""}
    found = await finding(replace(plain, state_dir=repository.folder.parent / "plain-state"))
    assert found is not None
    assert (found.health, "is in no checkout of a Git repository" in found.found) == ("note", True)
    off = replace(plain, git="off", state_dir=repository.folder.parent / "plain-state")
    assert await finding(off) is None


async def test_doctor_says_which_changes_wait_for_a_commit_and_why(repository: Repository) -> None:
    settings = settings_of(repository)
    found = await finding(replace(settings, git="off"))
    assert found is not None
    assert "FORGE_GIT=commit" in found.found
    async with connected(repository) as host:
        await edit(host, "Friday", "Monday")
    found = await finding(settings)
    assert found is not None
    assert (found.health, found.found) == ("ok", "each change becomes a commit; none is missing")
    repository.write("notes/team.md", "# Team\n")
    repository.git("add", ".")
    async with connected(repository) as host:
        await edit(host, "Monday", "Tuesday")
    found = await finding(settings)
    assert found is not None
    assert (found.health, found.found) == (
        "note",
        "commits wait: you have staged changes that are not committed; 1 change is not committed yet",
    )
    assert found.mend == "commit them, or git restore --staged ."
