"""Two machines with a Git remote between them: their pages are merged, on record, and the same on both afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.errors import UnwritableDocument
from knowledge.git.checkout import CommitWaits
from knowledge.sync.changed_files import NoCommonCommit, NotMergeable
from knowledge.sync.remote import PushRefused, RemoteAway
from mcp_server.gate.host_registration import os_user
from tests.support.git.repositories import Repository, alone, made
from tests.support.git.two_machines import two_machines

pytestmark = pytest.mark.external
"""Two servers and some twenty runs of git take seconds; the pure merge and one machine are tested in every run."""

PLAN, TEAM = "notes/plan.md", "notes/team.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for two machines, where git knows nothing of the configuration of this one."""
    alone(monkeypatch, tmp_path)
    return tmp_path


async def test_edits_of_hosts_on_both_sides_meet_in_the_page(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        await ann.edit(PLAN, "Friday", "Monday")
        await bob.edit(PLAN, "The vendor is slow.", "The vendor is slow.\n\nThe budget is small.")
        assert (await ann.synchronise()).sent == 1
        outcome = await bob.synchronise()
        assert [(one.kind, one.page, one.author.name) for one in outcome.arrived] == [
            ("merged", PLAN, f"ada on behalf of {os_user()}")
        ]
        await ann.synchronise()
        assert ann.files() == bob.files()
        assert "We ship on Monday." in ann.files()[PLAN]
        assert "The budget is small." in ann.files()[PLAN]
        assert bob.conflicts == []
        assert ann.kb.git("rev-parse", "HEAD") == bob.kb.git("rev-parse", "HEAD")
        assert bob.kb.log("%an|%cn|%s")[0] == "Bob Sample|Bob Sample|Merge origin/main"


async def test_what_comes_in_is_on_record_with_the_author_of_its_commit(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        ann.kb.write(PLAN, "# Plan\n\nWe ship on Sunday.\n")
        outcome = await ann.synchronise()
        assert outcome.edits == (PLAN,)
        assert ann.kb.log("%an|%s")[0] == f"Ann Example|Edit {PLAN} outside Knowledge Forge"
        await bob.synchronise()
        change = (await bob.host.app.services.timeline.changes(PLAN, limit=1)).changes[0]
        assert (change.by, change.tool) == ("Ann Example@git:origin/main", "sync")
        assert change.intent.startswith("bring in commit ")
        commits = await bob.host.app.services.change_commits.of([change])
        assert commits[change.id].id == ann.kb.git("rev-parse", "HEAD").strip()


async def test_a_side_that_only_follows_gets_the_same_commit(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        await ann.edit(PLAN, "Friday", "Monday")
        ann.kb.write("notes/new.md", "# New\n")
        ann.kb.write("tools/run.sh", "#!/bin/sh\n")
        (ann.kb.folder / "tools/run.sh").chmod(0o755)
        ann.kb.git("add", "tools/run.sh")
        ann.kb.git("commit", "-qm", "Add a script")
        ann.kb.git("rm", "-q", "--cached", TEAM)
        (ann.kb.folder / TEAM).unlink()
        ann.kb.git("commit", "-qm", "The team is gone")
        await ann.synchronise()
        outcome = await bob.synchronise()
        assert {(one.kind, one.path) for one in outcome.arrived} == {
            ("taken", PLAN),
            ("taken", "notes/new.md"),
            ("taken", "tools/run.sh"),
            ("removed", TEAM),
        }
        assert bob.kb.git("rev-parse", "HEAD") == ann.kb.git("rev-parse", "HEAD")
        assert (bob.kb.folder / "tools/run.sh").stat().st_mode & 0o111
        assert (await bob.synchronise()).arrived == ()


async def test_where_both_changed_the_same_text_the_page_keeps_this_sides_and_the_other_is_reported(
    folder: Path,
) -> None:
    async with two_machines(folder) as (ann, bob):
        await ann.edit(PLAN, "Friday", "Monday")
        await bob.edit(PLAN, "Friday", "Sunday")
        await ann.synchronise()
        outcome = await bob.synchronise()
        (arrived,) = outcome.arrived
        assert (arrived.kind, arrived.conflicts) == ("merged", 1)
        (conflict,) = bob.conflicts
        assert b"Monday" in conflict.theirs
        assert "We ship on Sunday." in bob.files()[PLAN]
        await ann.synchronise()
        assert ann.files() == bob.files()
        assert "<<<<<<<" not in ann.files()[PLAN]


async def test_removed_on_one_side_and_changed_on_the_other_stays(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        (ann.kb.folder / PLAN).unlink()
        await ann.edit(TEAM, "Bob", "Bob and Cid")
        await bob.edit(PLAN, "Friday", "Monday")
        (bob.kb.folder / TEAM).unlink()
        await ann.synchronise()
        outcome = await bob.synchronise()
        assert {(one.kind, one.path) for one in outcome.arrived} == {("kept", PLAN), ("returned", TEAM)}
        await ann.synchronise()
        assert ann.files() == bob.files()
        assert "Monday" in ann.files()[PLAN]
        assert "Cid" in ann.files()[TEAM]


async def test_a_page_that_one_side_moved_gets_the_other_sides_edit_at_its_new_place(
    folder: Path,
) -> None:
    async with two_machines(folder) as (ann, bob):
        await ann.host.call("kb_move", path=PLAN, to="plans/next.md")
        await bob.edit(PLAN, "Friday", "Monday")
        await ann.synchronise()
        await bob.synchronise()
        assert PLAN not in bob.files()
        assert "Monday" in bob.files()["plans/next.md"]
        await bob.edit("plans/next.md", "slow", "late")
        await ann.host.call("kb_move", path="plans/next.md", to="plans/last.md")
        await bob.synchronise()
        await ann.synchronise()
        await bob.synchronise()
        assert ann.files() == bob.files()
        assert "late" in ann.files()["plans/last.md"]


async def test_a_picture_that_both_sides_changed_is_kept_in_both_forms(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        for machine, raw in ((ann, b"\x89one"), (bob, b"\x89two")):
            (machine.kb.folder / "cup.png").write_bytes(raw)
            machine.kb.git("add", "cup.png")
            machine.kb.git("commit", "-qm", "A cup")
        await ann.synchronise()
        (arrived,) = (await bob.synchronise()).arrived
        assert arrived.kind == "beside"
        assert (bob.kb.folder / "cup.png").read_bytes() == b"\x89two"
        assert (bob.kb.folder / arrived.aside).read_bytes() == b"\x89one"
        await ann.synchronise()
        assert (ann.kb.folder / "cup.png").read_bytes() == b"\x89two"


async def test_a_file_in_the_way_that_git_does_not_know_is_left_alone(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        ann.kb.write("data.csv", "1\n")
        ann.kb.git("add", "data.csv")
        ann.kb.git("commit", "-qm", "Data")
        await ann.synchronise()
        bob.kb.write("data.csv", "2\n")
        with pytest.raises(UnwritableDocument, match=r"data\.csv cannot be written: Git does not have what it is now"):
            await bob.sync.run(bob.note)
        assert (bob.kb.folder / "data.csv").read_text() == "2\n"
        (bob.kb.folder / "data.csv").unlink()
        await bob.synchronise()
        assert (bob.kb.folder / "data.csv").read_text() == "1\n"


async def test_commits_of_others_that_arrive_in_between_are_merged_before_the_next_push(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_machines(folder) as (ann, bob):
        await ann.edit(PLAN, "Friday", "Monday")
        await bob.edit(TEAM, "Bob", "Bob and Cid")
        merge = ann.sync._merged

        async def overtaken(*given: object) -> object:
            found = await merge(*given)  # type: ignore[arg-type]
            if bob.kb.git("status", "--porcelain", "-b").find("[ahead") < 0:
                await bob.synchronise()
            return found

        monkeypatch.setattr(ann.sync, "_merged", overtaken)
        await ann.synchronise()
        monkeypatch.undo()
        await bob.synchronise()
        assert ann.files() == bob.files()
        assert "Cid" in ann.files()[TEAM]
        assert "Monday" in bob.files()[PLAN]


async def test_offline_the_commits_stay_and_the_reason_is_said_without_secrets(
    folder: Path,
) -> None:
    async with two_machines(folder) as (ann, _):
        await ann.edit(PLAN, "Friday", "Monday")
        ann.kb.git("remote", "set-url", "origin", "https://ann:hunter2@127.0.0.1:9/kb.git")
        with pytest.raises(RemoteAway, match="origin can't be reached") as away:
            await ann.sync.run(ann.note)
        assert "hunter2" not in str(away.value)
        assert ann.kb.subjects()[0] == f"Edit {PLAN}"
        assert ann.kb.status == []


async def test_a_remote_that_refuses_is_not_asked_again_and_never_forced(folder: Path) -> None:
    async with two_machines(folder) as (ann, _):
        remote = Repository(ann.kb.folder.parent / "remote.git")
        hook = remote.folder / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        await ann.edit(PLAN, "Friday", "Monday")
        with pytest.raises(PushRefused, match=r"origin did not take the commits: .*pre-receive hook declined"):
            await ann.sync.run(ann.note)
        assert remote.subjects() == ["Begin"]


async def test_nothing_happens_while_the_person_is_in_the_middle_of_something(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        await ann.edit(PLAN, "Friday", "Monday")
        await ann.synchronise()
        before = bob.files()
        bob.kb.write(TEAM, "# Team\n\nNobody.\n")
        bob.kb.git("add", TEAM)
        with pytest.raises(CommitWaits, match="staged changes"):
            await bob.sync.run(bob.note)
        bob.kb.git("commit", "-qm", "Nobody")
        (bob.kb.folder / ".git/rebase-merge").mkdir()
        with pytest.raises(CommitWaits, match="a rebase is in progress"):
            await bob.sync.run(bob.note)
        (bob.kb.folder / ".git/rebase-merge").rmdir()
        assert bob.files() == {**before, TEAM: "# Team\n\nNobody.\n"}


async def test_without_a_remote_or_a_common_commit_nothing_is_merged(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        ann.kb.git("remote", "remove", "origin")
        with pytest.raises(CommitWaits, match="no remote to synchronise with"):
            await ann.sync.run(ann.note)
        stranger = made(folder / "stranger", {"other.md": "# Other\n"})
        bob.kb.git("remote", "set-url", "origin", str(stranger.folder))
        with pytest.raises(NoCommonCommit, match="no common commit"):
            await bob.sync.run(bob.note)


async def test_a_link_from_the_other_side_is_not_made(folder: Path) -> None:
    async with two_machines(folder) as (ann, bob):
        (ann.kb.folder / "notes/passwd.md").symlink_to("/etc/passwd")
        ann.kb.git("add", "notes/passwd.md")
        ann.kb.git("commit", "-qm", "A link")
        await ann.sync.run(ann.note)
        with pytest.raises(NotMergeable, match=r"notes/passwd.md, which is a symbolic link"):
            await bob.sync.run(bob.note)
        assert not (bob.kb.folder / "notes/passwd.md").is_symlink()


@pytest.mark.parametrize("folder_name", [".git", ".GIT", "git~1", ".g\u200cit"])
async def test_a_file_in_gits_own_folder_is_refused_before_anything_is_written(folder: Path, folder_name: str) -> None:
    """Git would run it. Names that are `.git` on Windows and macOS count, as for git itself."""
    async with two_machines(folder) as (ann, bob):
        blob = ann.kb.git("hash-object", "-w", "--stdin", stdin=b"#!/bin/sh\n").strip()
        hooks = ann.kb.git("mktree", stdin=f"100755 blob {blob}\tpost-commit\n".encode()).strip()
        inner = ann.kb.git("mktree", stdin=f"040000 tree {hooks}\thooks\n".encode()).strip()
        top = ann.kb.git("ls-tree", "HEAD") + f"040000 tree {inner}\t{folder_name}\n"
        tree = ann.kb.git("mktree", stdin=top.encode()).strip()
        commit = ann.kb.git("commit-tree", tree, "-p", "HEAD", "-m", "Evil").strip()
        ann.kb.git("push", "-q", "origin", f"{commit}:refs/heads/main")
        before = sorted(bob.kb.folder.rglob("*"))
        with pytest.raises(NotMergeable, match="must not be in a commit"):
            await bob.sync.run(bob.note)
        left = [file for file in set(bob.kb.folder.rglob("*")) - set(before) if "objects" not in file.parts]
        assert [file for file in left if "refs" not in file.parts and "logs" not in file.parts] == []


async def test_a_branch_that_the_remote_does_not_have_yet_is_made_there(folder: Path) -> None:
    async with two_machines(folder) as (ann, _):
        ann.kb.git("switch", "-qc", "drafts")
        await ann.edit(PLAN, "Friday", "Monday")
        outcome = await ann.synchronise()
        assert outcome.remote == "origin/drafts"
        remote = Repository(ann.kb.folder.parent / "remote.git")
        assert remote.git("rev-parse", "drafts") == ann.kb.git("rev-parse", "HEAD")
