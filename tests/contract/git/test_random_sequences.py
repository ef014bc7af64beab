"""Hosts, an editor and a person with Git use the same pages at random: no text is lost, and Git has what each of them did.

FORGE_TEST_SEEDS sets how many sequences the slow version runs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from knowledge.git.act_commits import ActCommits
from knowledge.git.checkout import REST_S
from knowledge.git.commit_message import act_of
from knowledge.git.commit_records import CommitRecords
from knowledge.history.audit.chain import fields_of
from knowledge.pages.vault import revision_of
from mcp_server.app.factories.act_commits import commits_of
from mcp_server.app.settings.settings import Settings
from tests.support.git.repositories import PERSON, Repository, alone, made
from tests.support.hosts.writers import Refused, Writer, writing
from tests.support.writing.outside_editor import save

SEEDS = int(os.environ.get("FORGE_TEST_SEEDS", "20"))
PAGES = {f"notes/page-{n}.md": f"# Page {n}\n\n" + "".join(f"Line {m}.\n\n" for m in range(4)) for n in range(4)}
STOPPED = ("MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD")


@dataclass
class Walk:
    """One sequence."""

    draw: random.Random
    host: Writer
    commits: ActCommits
    kb: Repository
    told: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """The steps so far, for a failure."""
    gone_with: dict[str, str] = field(default_factory=dict)
    """The step after which a sentence was in no page."""
    thrown_away: set[str] = field(default_factory=set)

    def token(self, who: str) -> str:
        """Return a sentence that nobody has written yet."""
        self.told.append(f"{who} number {len(self.told)} {self.draw.randrange(16**6):06x}")
        return self.told[-1]

    @property
    def pages(self) -> list[str]:
        return sorted(file.relative_to(self.kb.folder).as_posix() for file in self.kb.folder.rglob("*.md"))

    def files(self) -> dict[str, bytes]:
        return {path: (self.kb.folder / path).read_bytes() for path in self.pages}

    def in_tree(self) -> set[str]:
        """Return the sentences that pages have now."""
        text = b"\n".join(self.files().values()).decode()
        return {token for token in self.told if token in text}

    # --- what happens ------------------------------------------------------------------------------------------------

    async def host_edits(self) -> None:
        path, before = self.draw.choice(self.pages), self.in_tree()
        text = (await self.host.call("kb_read", path=path, view="full"))["text"]
        base = await self.host.revision(path)
        token = self.token("host")
        try:
            await self.host.merge(path, f"{text.rstrip()}\n\n{token}\n", base_revision=base)
        except Refused as error:
            assert "conflict" in str(error), error  # noqa: PT017 - most edits are not refused
            self.told.remove(token)
        assert before <= self.in_tree(), "the server removed text"

    async def host_makes_a_page(self) -> None:
        before = self.in_tree()
        token = self.token("host")
        await self.host.merge(f"notes/new-{len(self.told)}.md", f"# New {len(self.told)}\n\n{token}\n")
        assert before <= self.in_tree()

    async def host_moves_a_page(self) -> None:
        path, before = self.draw.choice(self.pages), self.in_tree()
        try:
            await self.host.call("kb_move", path=path, to=f"moved/{len(self.told)}-{Path(path).name}")
        except Refused as error:
            assert "conflict" in str(error) or "already" in str(error), error  # noqa: PT017 - as above
        assert before <= self.in_tree()

    async def server_commits(self) -> None:
        told, files, dirty, refs = self.in_tree(), self.files(), self.dirty(), self.refs()
        was = self.kb.git("rev-parse", "-q", "--verify", "HEAD", code=None).strip()
        before_index = self.staged()
        left = await self.commits.commit_pending()
        assert told <= self.in_tree(), "a commit removed text"
        # Within seconds after an edit of the host, the server puts text back that a save from an old buffer removed.
        now = self.dirty()
        put_back = {path for path, raw in self.files().items() if files.get(path) != raw}
        assert now <= dirty | put_back, "a commit made something dirty"
        assert self.staged() == before_index, "a commit changed what is staged"
        moved = {ref for ref, commit in self.refs().items() if refs.get(ref) != commit}
        assert moved <= {self.kb.git("symbolic-ref", "-q", "HEAD", code=None).strip()}
        if left.made:
            await self.check_commits(was)

    def dirty(self) -> set[str]:
        return {line[3:] for line in self.kb.git("status", "--porcelain", "--untracked-files=all").splitlines()}

    def refs(self) -> dict[str, str]:
        lines = self.kb.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ") for line in lines)

    def staged(self) -> str:
        return self.kb.git("diff", "--cached", "--name-status", code=None)

    async def check_commits(self, since: str) -> None:
        """Check that each new commit has exactly one act's bytes, or text of the person that an act builds on."""
        records = {r.seq: r for r in await self.host.app.base.state.ledger.records(limit=100_000)}
        for commit in self.kb.git("rev-list", "--reverse", f"{since}..HEAD").split():
            trailers, paths = self.kb.trailers(commit), self.kb.changed(commit)
            author = self.kb.git("log", "-1", "--format=%an <%ae>", commit).strip()
            if "Forge-Act" not in trailers:
                assert (trailers, author) == ({"Forge-Source": "outside"}, PERSON)
                continue
            assert trailers["Forge-Host"] in ("writer", "knowledge-forge")
            assert author.startswith(("writer on behalf of ", "Knowledge Forge <"))
            act = act_of(int(trailers["Forge-Act"]), fields_of(records[int(trailers["Forge-Act"])]))
            assert act is not None
            after = {change.path: change.after for change in act.changes}
            assert set(paths) <= set(after)
            for path in paths:
                listed = self.kb.git("ls-tree", commit, "--", path)
                raw = self.kb.git("cat-file", "blob", f"{commit}:{path}").encode() if listed else None
                assert (None if raw is None else revision_of(raw)) == after[path]

    async def editor_saves(self) -> None:
        file = self.kb.folder / self.draw.choice(self.pages)
        text = file.read_bytes().rstrip(b"\n") + f"\n\n{self.token('editor')}\n".encode()
        save(file, text, in_place=self.draw.random() < 0.5)

    async def person_stages(self) -> None:
        self.kb.git("add", "--", self.draw.choice(self.pages))

    async def person_commits(self) -> None:
        how = self.draw.choice([("commit", "-q"), ("commit", "-qa")])
        self.kb.git(*how, "-m", "By the person", code=None)

    async def person_switches(self) -> None:
        self.kb.git("checkout", "-q", self.draw.choice(["main", "work"]), code=None)

    async def person_stashes(self) -> None:
        self.kb.git("stash", self.draw.choice(["push", "pop"]), "-q", code=None)

    async def person_merges(self) -> None:
        self.kb.git("merge", "-q", "-m", "Merge", self.draw.choice(["main", "work"]), code=None)

    async def person_rebases(self) -> None:
        self.kb.git("-c", "rebase.autoStash=true", "rebase", "-q", self.draw.choice(["main", "work"]), code=None)

    async def person_resolves(self) -> None:
        """End what is in progress: by keeping both sides of each conflict, or by going back."""
        git_dir = self.kb.folder / ".git"
        unmerged = set(self.kb.git("diff", "--name-only", "--diff-filter=U").splitlines())
        for path in unmerged:
            file = self.kb.folder / path
            if file.exists():
                marks = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
                kept = [line for line in file.read_text().splitlines() if not line.startswith(marks)]
                file.write_text("\n".join(kept) + "\n")
                self.kb.git("add", "--", path)
            else:
                self.kb.git("rm", "-q", "--cached", "--", path, code=None)
        if any((git_dir / name).exists() for name in ("rebase-merge", "rebase-apply")):
            before, how = self.in_tree(), self.draw.choice(["--continue", "--abort"])
            self.kb.git("rebase", how, code=None)
            if how == "--abort":
                # That throws away what nobody committed, with or without a server.
                self.thrown_away |= before - self.in_tree()
        elif (git_dir / "MERGE_HEAD").exists():
            self.kb.git("commit", "-q", "--no-edit", code=None)

    async def step(self) -> None:
        steps: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.host_edits, 6),
            (self.host_makes_a_page, 1),
            (self.host_moves_a_page, 1),
            (self.server_commits, 6),
            (self.editor_saves, 4),
            (self.person_stages, 1),
            (self.person_commits, 2),
            (self.person_switches, 2),
            (self.person_stashes, 2),
            (self.person_merges, 1),
            (self.person_rebases, 1),
            (self.person_resolves, 3),
        ]
        chosen = self.draw.choices([one for one, _ in steps], [weight for _, weight in steps])[0]
        self.done.append(chosen.__name__)
        before = self.in_tree()
        await chosen()
        self.gone_with.update(dict.fromkeys(before - self.in_tree(), chosen.__name__))

    # --- the end -----------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """End everything that is in progress, and check that nothing is missing."""
        for _ in range(20):
            if not any((self.kb.folder / ".git" / name).exists() for name in STOPPED):
                break
            await self.person_resolves()
        if not self.kb.git("symbolic-ref", "-q", "HEAD", code=None):
            self.kb.git("checkout", "-q", "-B", "main")
        self.kb.git("reset", "-q")
        await anyio.sleep(REST_S)
        await self.server_commits()
        left = await self.commits.commit_pending()
        assert (left.acts, left.waiting) == (0, None)
        await self.no_text_is_lost()
        await self.acts_left_nothing_dirty()

    async def no_text_is_lost(self) -> None:
        """Check that each sentence is in a page, in a commit or stash, or in the server's history."""
        missing = set(self.told) - self.in_tree() - self.thrown_away
        in_git = self.kb.git("cat-file", "--batch-all-objects", "--batch")
        missing = {token for token in missing if token not in in_git}
        ledger = self.host.app.base.state.ledger
        for line in await ledger.lines_after(0, limit=100_000):
            raw = await ledger.content(line.path, line.revision) if missing and line.revision else None
            missing = {token for token in missing if token.encode() not in (raw or b"")}
        assert not {token: self.gone_with.get(token) for token in missing}

    async def acts_left_nothing_dirty(self) -> None:
        """Check that a page is only dirty if somebody else wrote it last, or its act is known to have no commit."""
        state = self.host.app.base.state
        for line in self.kb.status:
            path = line[3:].strip('"')
            newest = next(iter(await state.ledger.history(path, limit=1)), None)
            if newest is None or newest.seq is None or not (self.kb.folder / path).exists():
                continue
            if revision_of((self.kb.folder / path).read_bytes()) == newest.revision:
                known = (await CommitRecords(state.tables).of([newest.seq])).get(newest.seq)
                # A person who switches branches takes an uncommitted page of an earlier act along.
                assert known is None or known.outcome != "made" or self.has_moved(known.commit), (line, known)

    def has_moved(self, commit: str) -> bool:
        """Return whether the branch is another one than that of the commit, or was changed since."""
        newest = self.kb.git("log", "-1", "--format=%H", "--", *self.kb.changed(commit)).strip()
        return newest != commit


async def walk(seed: int, steps: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        alone(patch, folder.parent)
        kb = made(folder / "kb", {**PAGES, ".gitignore": ".forge-*.tmp\n"})
        kb.git("branch", "work")
        settings = Settings(kb=kb.folder, state_dir=folder / "state", open_browser=False)
        async with writing(settings) as host:
            commits = commits_of(host.app.base)
            await commits.begin()
            going = Walk(random.Random(seed), host, commits, kb)  # noqa: S311 - repeatable
            try:
                for _ in range(steps):
                    await going.step()
                await going.end()
            except BaseException as error:
                error.add_note(f"seed {seed}: {' '.join(going.done)}")
                raise


async def test_random_sequences_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(2):
        await walk(seed, 30, tmp_path / str(seed), monkeypatch)


@pytest.mark.slow
async def test_many_random_sequences_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(SEEDS):
        await walk(1000 + seed, 100, tmp_path / str(seed), monkeypatch)
