"""What moves HEAD is noticed, by whichever process looks first, and the changes of pages are put on record."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from knowledge.git.head_moves import HeadMoves
from tests.contract.git.test_act_commits import connected, edit
from tests.support.git.repositories import PAGES, Repository, alone, repository

__all__ = ["repository"]

PLAN = "notes/plan.md"
LATER = PAGES[PLAN].replace("Friday", "Monday")


def moves_of(repository: Repository) -> HeadMoves:
    return HeadMoves(repository.folder, repository.folder.parent / "git-head")


def keep(moves: HeadMoves) -> None:
    moves.keep(moves.stamp())
    assert not moves.moved()


@pytest.mark.parametrize(
    ("before", "move"),
    [
        ([], ["commit -q --allow-empty -m More"]),
        ([], ["switch -q -c work"]),
        ([], ["checkout -q --detach"]),
        ([], ["commit -q --amend -m Other"]),
        ([], ["stash -q"]),
        (["stash -q"], ["stash pop -q"]),
        (["branch work", "commit -q --allow-empty -m More"], ["reset -q --hard work"]),
        (["config core.logAllRefUpdates false", "pack-refs --all"], ["commit -q --allow-empty -m More"]),
    ],
)
def test_whatever_moves_head_or_the_stash_is_noticed(
    before: list[str], move: list[str], repository: Repository
) -> None:
    moves = moves_of(repository)
    repository.write(PLAN, LATER)
    for line in before:
        repository.git(*line.split())
    keep(moves)
    for line in move:
        repository.git(*line.split())
    assert moves.moved()
    keep(moves)


def test_a_pull_is_noticed(repository: Repository) -> None:
    moves, colleague = moves_of(repository), Repository(repository.folder.parent / "clone")
    repository.git("clone", "-q", ".", str(colleague.folder))
    colleague.git("-c", "user.name=Bob", "-c", "user.email=b@b.b", "commit", "-q", "--allow-empty", "-m", "Bob")
    keep(moves)
    repository.git("pull", "-q", str(colleague.folder), "main")
    assert moves.moved()


def test_reading_and_writing_moves_nothing(repository: Repository) -> None:
    moves = moves_of(repository)
    keep(moves)
    repository.write(PLAN, LATER)
    repository.git("add", "-A")
    assert repository.status
    repository.git("log")
    assert not moves.moved()


def test_a_worktree_has_a_head_of_its_own(repository: Repository) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(repository.folder.parent / "side"))
    side = Repository(repository.folder.parent / "side")
    moves = HeadMoves(side.folder, repository.folder.parent / "git-head")
    keep(moves)
    repository.git("commit", "-q", "--allow-empty", "-m", "On main")
    assert not moves.moved()
    side.git("commit", "-q", "--allow-empty", "-m", "On the side")
    assert moves.moved()


def test_without_a_repository_nothing_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, tmp_path)
    assert HeadMoves(tmp_path, tmp_path / "git-head").moved() == ""
    (tmp_path / ".git").write_text("gitdir: /nowhere")
    moves = HeadMoves(tmp_path, tmp_path / "git-head")
    keep(moves)


async def test_a_switch_is_on_record_although_nobody_looks_at_a_history(repository: Repository) -> None:
    async with connected(repository) as (host, _):
        await host.revision(PLAN)
        repository.git("switch", "-q", "-c", "work")
        repository.write(PLAN, LATER)
        repository.commit("Later")
        with anyio.fail_after(60):
            ledger, seen = host.app.base.state.ledger, 0
            while not await ledger.history(PLAN, limit=1):
                await host.app.base.state.changed(seen)
                seen = await host.app.base.state.last_event()
        (line, *_) = await ledger.history(PLAN, limit=1)
        assert (line.how, await ledger.content(PLAN, line.revision or "")) == ("outside", LATER.encode())


async def test_the_own_commits_of_the_server_are_no_move(repository: Repository) -> None:
    async with connected(repository) as (host, commits):
        await host.app.record_git_moves()
        moves = HeadMoves(repository.folder, host.app.base.state_dir / "git-head")
        assert not moves.moved()
        await edit(host, "Friday", "Monday")
        assert (await commits.commit_pending()).made == 1
        assert not moves.moved()
