"""Conflicts of Git are never merged as text, and a person is the one who resolves them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.doctor import examine
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallAnswered, CallFailed
from mcp_server.gate.host_registration import TERMINAL, Principal, os_user
from tests.support.git.repositories import PAGES, Repository, repository
from tests.support.hosts.writers import Writer, writing

__all__ = ["repository"]

PLAN = "notes/plan.md"
CONFLICT = "<<<<<<< HEAD\nWe ship on Monday.\n=======\nWe ship on Tuesday.\n>>>>>>> work\n"


def settings_of(repository: Repository) -> Settings:
    return Settings(kb=repository.folder, state_dir=repository.folder.parent / "state", open_browser=False)


@asynccontextmanager
async def connected(repository: Repository) -> AsyncIterator[Writer]:
    async with writing(settings_of(repository)) as host:
        yield host


def in_a_merge(repository: Repository) -> None:
    """Leave a merge with a conflict in the plan."""
    repository.git("checkout", "-q", "-b", "work")
    repository.write(PLAN, PAGES[PLAN].replace("Friday", "Tuesday"))
    repository.commit("Tuesday")
    repository.git("checkout", "-q", "main")
    repository.write(PLAN, PAGES[PLAN].replace("Friday", "Monday"))
    repository.commit("Monday")
    repository.git("merge", "-q", "work", code=1)


async def test_a_page_in_conflict_takes_no_merge_until_a_person_resolves_it(repository: Repository) -> None:
    in_a_merge(repository)
    async with connected(repository) as host:
        page = await host.call("kb_read", path=PLAN)
        assert "lines 3 to 7 are an unresolved Git conflict" in str(page["note"])
        marked = host.text(PLAN)
        new = marked.replace("The vendor is slow.", "The vendor is fast.")
        error = await host.refused("kb_merge", path=PLAN, content=new, base_revision=page["revision"])
        assert "the content has a Git conflict in its lines 3 to 7" in error
        section = {"section": "Risks", "content": "## Risks\n\nNone.\n", "base_revision": page["revision"]}
        error = await host.refused("kb_merge", path=PLAN, **section)
        assert f"nothing was written to {PLAN}: lines 3 to 7 of the page are a Git conflict" in error
        assert host.text(PLAN) == marked
        # The marks are gone, and Git still counts the page as unmerged.
        repository.write(PLAN, PAGES[PLAN].replace("Friday", "Monday"))
        base = await host.revision(PLAN)
        error = await host.refused("kb_merge", path=PLAN, **{**section, "base_revision": base})
        assert "Git has an unresolved conflict in the page" in error
        repository.git("add", PLAN)
        merged = await host.merge(PLAN, section["content"], section="Risks", base_revision=base)
        assert merged["status"] == "done"
        assert "None." in host.text(PLAN)


async def test_a_person_resolves_a_conflict_by_an_edit(repository: Repository) -> None:
    repository.write(PLAN, f"# Plan\n\n{CONFLICT}")
    settings = settings_of(repository)
    async with open_app(settings) as app:
        person = Call(Principal(os_user(), TERMINAL))
        base = (await app.services.tiers.read(PLAN)).revision
        still = {"path": PLAN, "content": f"# Plan\n\n{CONFLICT}More.\n", "section": "*", "base_revision": base}
        assert isinstance(await app.gate.dispatch("kb_merge", still, person), CallFailed)
        done = await app.gate.dispatch("kb_merge", {**still, "content": "# Plan\n\nWe ship on Monday.\n"}, person)
        assert isinstance(done, CallAnswered)
    assert (repository.folder / PLAN).read_text() == "# Plan\n\nWe ship on Monday.\n"


async def test_new_text_with_a_conflict_is_refused_and_an_example_in_a_fence_is_not(repository: Repository) -> None:
    async with connected(repository) as host:
        assert "code fence" in await host.refused("kb_merge", path="new.md", content=f"# New\n\n{CONFLICT}")
        assert not (repository.folder / "new.md").exists()
        await host.merge("git.md", f"# Git\n\nA conflict:\n\n```\n{CONFLICT}```\n")
        base = await host.revision("git.md")
        await host.merge("git.md", "## More\n\nResolve it.\n", base_revision=base)
        assert (await host.call("kb_read", path="git.md"))["note"] is None


async def test_doctor_names_pages_in_conflict(repository: Repository) -> None:
    in_a_merge(repository)
    findings = {finding.what: finding for finding in await examine(settings_of(repository))}
    (problem,) = findings["pages"].pages
    assert (problem.path, problem.reason) == (PLAN, "lines 3 to 7 are a conflict that Git left")
    assert "<<<<<<<" in problem.mend


async def test_what_git_writes_is_never_taken_for_an_editors_old_buffer(repository: Repository) -> None:
    """A page saved within seconds after a host's edit, from before it, gets the host's text back; a branch does not."""
    repository.git("checkout", "-q", "-b", "work")
    other = PAGES[PLAN].replace("slow", "late")
    repository.write(PLAN, other)
    repository.commit("Late")
    repository.git("checkout", "-q", "main")
    async with connected(repository) as host:
        base = await host.revision(PLAN)
        await host.merge(PLAN, PAGES[PLAN].replace("Friday", "Monday"), base_revision=base)
        repository.commit("The host's")
        repository.git("checkout", "-q", "work")
        await anyio.sleep(1)
        assert host.text(PLAN) == other
        # An editor opens that page and saves it.
        other += "\nSaid in an editor.\n"
        repository.write(PLAN, other)
        await anyio.sleep(1)
        assert host.text(PLAN) == other
        base = await host.revision(PLAN)
        await host.merge(PLAN, other + "\nMore.\n", base_revision=base)
        assert host.text(PLAN) == other + "\nMore.\n"
        # The same text from an editor that had the page open since before the edit of the host.
        base = await host.revision("notes/team.md")
        await host.merge("notes/team.md", PAGES["notes/team.md"] + "\nCarl too.\n", base_revision=base)
        repository.write("notes/team.md", PAGES["notes/team.md"].replace("Bob", "Eve"))
        with anyio.fail_after(60):
            while "Carl too." not in host.text("notes/team.md"):  # noqa: ASYNC110 - files have no events
                await anyio.sleep(0.05)
        assert "Eve" in host.text("notes/team.md")


async def edited(host: Writer, line: str) -> None:
    base = await host.revision(PLAN)
    await host.merge(PLAN, f"{host.text(PLAN)}\n{line}\n", base_revision=base)


async def waited(host: Writer, line: str) -> None:
    """Wait until the page has the line."""
    with anyio.fail_after(60):
        while line not in host.text(PLAN):  # noqa: ASYNC110 - files have no events
            await anyio.sleep(0.05)


async def test_text_that_a_failing_pull_resets_is_put_back(repository: Repository) -> None:
    """A merge that can't be made puts back the working tree of when it began, over what was written since."""
    async with connected(repository) as host:
        await edited(host, "The host's line.")
        await anyio.sleep(0.7)
        (repository.folder / ".git/FETCH_HEAD").write_text("")
        repository.git("read-tree", "--reset", "-u", "HEAD")
        await waited(host, "The host's line.")


async def test_text_that_a_person_takes_back_with_git_stays_away(repository: Repository) -> None:
    async with connected(repository) as host:
        await edited(host, "The host's line.")
        await anyio.sleep(0.7)
        repository.git("checkout", "--", PLAN)
        await anyio.sleep(2)
        assert host.text(PLAN) == PAGES[PLAN]
        await edited(host, "Another line.")
        assert host.text(PLAN) == f"{PAGES[PLAN]}\nAnother line.\n"


async def test_an_old_buffer_is_one_although_git_has_merged_the_page_meanwhile(repository: Repository) -> None:
    colleague = Repository(repository.folder.parent / "clone")
    repository.git("clone", "-q", ".", str(colleague.folder))
    colleague.write(PLAN, PAGES[PLAN].replace("# Plan", "# The plan"))
    colleague.git("-c", "user.name=Bob", "-c", "user.email=bob@example.org", "commit", "-qam", "Title")
    async with connected(repository) as host:
        await edited(host, "The host's line.")
        repository.commit("The host's")
        repository.git("pull", "-q", "--no-rebase", "--no-edit", str(colleague.folder), "main")
        assert "The host's line." in host.text(PLAN)
        repository.write(PLAN, PAGES[PLAN].replace("# Plan", "# The plan").replace("slow", "late"))
        await waited(host, "The host's line.")
        assert "late" in host.text(PLAN)
