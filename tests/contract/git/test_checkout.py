"""A commit changes its own files and nothing else, whatever the repository and its configuration are like."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge.git.checkout import Checkout, CommitPart, CommitWaits, NoCheckout
from knowledge.git.program import Git, GitFailed, NoGit
from mcp_server.app.settings.environment import git_environment
from tests.support.git.repositories import PAGES, PERSON, Repository, made, repository

__all__ = ["repository"]

PLAN = "notes/plan.md"
AT = datetime(2026, 11, 27, 4, 0, tzinfo=UTC)
AUTHOR = ("writer on behalf of ann", "writer@knowledge-forge.invalid")


def checkout_of(folder: Path) -> Checkout:
    """Return the checkout, in which a merge that has just begun holds up nothing."""
    return replace(Checkout.of(folder, git_environment()), rest_s=0.0)


def write(repository: Repository, path: str, raw: bytes) -> None:
    """Save a page as a server does, and commit it."""
    file = repository.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(raw)
    commit(repository, {path: raw})


def commit(repository: Repository, files: dict[str, bytes | None], *, root: str = "") -> str:
    """Commit these bytes of pages below `root` and return the commit."""
    checkout = checkout_of(repository.folder / root)
    blobs: dict[str, str | None] = {}
    for page, raw in files.items():
        path = checkout.path_of(page)
        assert path is not None
        blobs[path] = None if raw is None else checkout.blob_of(path, raw, store=True)
    with checkout.built(checkout.branch(), [CommitPart(blobs, "Edit\n", AUTHOR, AT)]) as built:
        checkout.publish(built)
        return built.newest


def test_pages_are_edited_made_moved_and_deleted_in_one_commit(repository: Repository) -> None:
    (repository.folder / "notes/team.md").unlink()
    repository.write("notes/who.md", PAGES["notes/team.md"])
    repository.write("index.md", "# Start\n")
    commit(
        repository,
        {"notes/team.md": None, "notes/who.md": PAGES["notes/team.md"].encode(), "index.md": b"# Start\n"},
    )
    assert repository.git("diff", "-M", "--name-status", "HEAD~1", "HEAD").splitlines() == [
        "M\tindex.md",
        "R100\tnotes/team.md\tnotes/who.md",
    ]
    assert repository.status == []


@pytest.mark.parametrize(
    ("attributes", "config", "raw"),
    [
        ("", "core.autocrlf=true", b"# Plan\r\n\r\nWindows.\r\n"),
        ("", "core.autocrlf=input", b"# Plan\r\n\r\nWindows.\r\n"),
        ("", "core.autocrlf=true", b"# Plan\n\nUnix.\n"),
        ("*.md text eol=crlf\n", "core.safecrlf=true", b"# Plan\r\n\r\nWindows.\r\n"),
        ("*.md text=auto\n", "core.eol=crlf", b"# Plan\r\n\r\nMixed.\n"),
        ("*.md -text\n", "core.autocrlf=true", b"# Plan\r\n\r\nAs it is.\r\n"),
        ("*.md filter=upper\n", "filter.upper.clean=tr a-z A-Z", b"# Plan\n\nlower\n"),
        ("*.md working-tree-encoding=UTF-16LE eol=lf\n", "core.eol=lf", "# Plan\n\nWide.\n".encode("utf-16-le")),
        ("*.md ident\n", "core.eol=lf", b"# Plan\n\n$Id: something $\n"),
    ],
)
def test_line_ends_and_filters_leave_a_clean_status(
    repository: Repository, attributes: str, config: str, raw: bytes
) -> None:
    """`git add` converts what it stores, and `git status` compares with that."""
    repository.git("config", *config.split("=", 1))
    if attributes:
        repository.write(".gitattributes", attributes)
        repository.git("add", ".gitattributes")
        repository.git("commit", "-q", "-m", "Attributes")
    write(repository, PLAN, raw)
    assert [line for line in repository.status if PLAN in line] == []
    assert repository.changed() == [PLAN]
    own = repository.git("hash-object", f"--path={PLAN}", PLAN).strip()
    assert repository.git("rev-parse", f"HEAD:{PLAN}").strip() == own


def test_a_file_keeps_its_mode(repository: Repository) -> None:
    (repository.folder / PLAN).chmod(0o755)
    repository.commit("Executable")
    write(repository, PLAN, b"# Plan\n")
    assert (repository.git("ls-tree", "HEAD", PLAN)[:6], repository.status) == ("100755", [])


@pytest.mark.parametrize(
    "name", ["a b.md", 'quo"te.md', "tab\there.md", "-rf.md", "*.md", ":(top)x.md", "ü/é.md", "new\nline.md"]
)
def test_names_are_only_names(repository: Repository, name: str) -> None:
    """Paths are never patterns, options or lines."""
    write(repository, name, b"# Page\n")
    assert repository.git("diff-tree", "-r", "-z", "--no-commit-id", "--name-only", "HEAD") == f"{name}\0"
    assert repository.status == []


def test_a_knowledge_base_may_be_a_folder_of_the_checkout(repository: Repository) -> None:
    repository.write(PLAN, "# New\n")
    commit(repository, {"plan.md": b"# New\n"}, root="notes")
    assert (repository.changed(), repository.status) == ([PLAN], [])


def test_a_linked_working_tree_has_its_own_branch_and_index(repository: Repository) -> None:
    other = repository.folder.parent / "other"
    repository.git("worktree", "add", "-q", "-b", "work", str(other))
    linked = Repository(other)
    write(linked, PLAN, b"# New\n")
    assert (linked.subjects(), linked.status) == (["Edit", "Begin"], [])
    assert (repository.subjects(), repository.status) == (["Begin"], [])


def test_a_repository_of_sha256_names(repository: Repository) -> None:
    folder = repository.folder.parent / "sha256"
    folder.mkdir()
    Repository(folder).git("init", "-q", "--object-format=sha256")
    other = made(folder)
    write(other, PLAN, b"# New\n")
    assert (len(other.log("%H")[0].strip()), other.status) == (64, [])


def test_pages_outside_the_repository_have_no_path_in_it(repository: Repository) -> None:
    checkout = checkout_of(repository.folder)
    inner = made(repository.folder / "inner")
    outside = repository.folder.parent / "outside"
    outside.mkdir()
    (repository.folder / "link").symlink_to(outside)
    (repository.folder / "linked").symlink_to(repository.folder / "notes")
    (repository.folder / "alias.md").symlink_to(repository.folder / PLAN)
    assert checkout.path_of(PLAN) == PLAN
    assert checkout.path_of("linked/plan.md") == PLAN
    assert [checkout.path_of(page) for page in ("link/a.md", "inner/a.md", "alias.md", "../a.md")] == [None] * 4
    assert checkout_of(inner.folder).path_of("a.md") == "a.md"


def test_ignored_paths(repository: Repository) -> None:
    repository.write(".gitignore", "private/\n")
    checkout = checkout_of(repository.folder)
    asked = ["private/a.md", "b.md", PLAN, "*.md", ":(top)x.md", "private/:!x.md"]
    assert checkout.ignored(asked) == {"private/a.md", "private/:!x.md"}


@pytest.mark.parametrize("what", ["commit", "stage", "switch", "lock", "merge"])
def test_a_person_who_is_quicker_wins(repository: Repository, what: str) -> None:
    """Between building a commit and putting it on the branch, the repository may change: then nothing happens."""
    checkout = checkout_of(repository.folder)
    blob = checkout.blob_of(PLAN, b"# New\n", store=True)
    part = CommitPart({PLAN: blob}, "Edit\n", AUTHOR, AT)
    with checkout.built(checkout.branch(), [part]) as built:
        match what:
            case "commit":
                repository.git("commit", "-q", "--allow-empty", "-m", "Quicker")
            case "stage":
                repository.write("notes/team.md", "# Other\n")
                repository.git("add", ".")
            case "switch":
                repository.git("symbolic-ref", "HEAD", "refs/heads/other")
            case "lock":
                (repository.folder / ".git/index.lock").write_text("")
            case "merge":
                (repository.folder / ".git/MERGE_HEAD").write_text("")
        before = (repository.git("rev-parse", "main"), (repository.folder / ".git/index").read_bytes())
        with pytest.raises(CommitWaits):
            checkout.publish(built)
    assert (repository.git("rev-parse", "main"), (repository.folder / ".git/index").read_bytes()) == before
    assert (repository.folder / ".git/index.lock").exists() == (what == "lock")
    assert not [*(repository.folder / ".git").glob("forge-index.*")]


@pytest.mark.parametrize("died", ["locked", "index", "branch", "staged"])
def test_what_a_killed_process_left_is_finished_or_removed(repository: Repository, died: str) -> None:
    """It died with its lock, with its index in place, with the branch moved; or somebody has staged something since."""
    checkout = checkout_of(repository.folder)
    repository.write(PLAN, "# New\n")
    blob = checkout.blob_of(PLAN, b"# New\n", store=True)
    index, lock = repository.folder / ".git/index", repository.folder / ".git/index.lock"
    base = checkout.head()
    with checkout.built(checkout.branch(), [CommitPart({PLAN: blob}, "Edit\n", AUTHOR, AT)]) as built:
        if died == "locked":
            os.link(built.index, lock)
            assert not checkout.recover(base, built.newest, hashlib.sha256(b"other").hexdigest())
            assert lock.exists(), "a lock of another program stays"
        else:
            index.write_bytes(built.index.read_bytes())
        if died == "branch":
            repository.git("update-ref", "refs/heads/main", built.newest)
        if died == "staged":
            repository.write("notes/team.md", "# Team\n")
            repository.git("add", "notes/team.md")
        is_made = died in ("index", "branch")
        assert checkout.recover(base, built.newest, built.index_sum) == is_made
    assert not lock.exists()
    left = {"locked": [f" M {PLAN}"], "staged": [f"M  {PLAN}", "M  notes/team.md"]}.get(died, [])
    assert sorted(repository.status) == sorted(left)
    assert (checkout.head() != base) == is_made


def test_commits_wait_while_a_merge_may_be_under_way(repository: Repository) -> None:
    """A merge reads the branch first and moves it last: it fails, half done, if somebody else has moved it."""
    checkout = replace(checkout_of(repository.folder), rest_s=3600.0)
    assert checkout.branch().ref == "refs/heads/main"
    (repository.folder / ".git/FETCH_HEAD").write_text("")
    with pytest.raises(CommitWaits, match="has just begun"):
        checkout.branch()


def test_intentions_to_add_are_nothing_staged(repository: Repository) -> None:
    repository.write("draft.md", "# Draft\n")
    repository.git("add", "-N", "draft.md")
    write(repository, PLAN, b"# New\n")
    assert (repository.changed(), repository.status) == ([PLAN], [" A draft.md"])


def test_the_variables_of_the_program_that_started_the_server_do_not_matter(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server that a hook or an editor started inherits GIT_DIR, GIT_INDEX_FILE and others, and the secrets of hosts."""
    other = made(tmp_path / "other")
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(other.folder / ".git"))
        patch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
        patch.setenv("GIT_AUTHOR_NAME", "Mallory")
        patch.setenv("GIT_EXTERNAL_DIFF", "false")
        patch.setenv("GIT_TRACE", str(tmp_path / "trace"))
        patch.setenv("FORGE_ENROLMENT", "secret")
        assert not [name for name in git_environment() if name.startswith("FORGE_")]
        write_to = checkout_of(repository.folder)
        blob = write_to.blob_of(PLAN, b"# New\n", store=True)
        with write_to.built(write_to.branch(), [CommitPart({PLAN: blob}, "Edit\n", AUTHOR, AT)]) as built:
            write_to.publish(built)
    assert repository.log("%an|%cn <%ce>")[0].strip() == f"{AUTHOR[0]}|{PERSON}"
    assert other.subjects() == ["Begin"]
    assert not (tmp_path / "trace").exists()


def test_a_filter_that_hangs_ends_in_time(repository: Repository) -> None:
    repository.write(".gitattributes", "*.md filter=slow\n")
    repository.git("config", "filter.slow.clean", "sleep 600")
    repository.git("config", "filter.slow.required", "true")
    whole = checkout_of(repository.folder)
    checkout = replace(whole, git=replace(whole.git, longest_s=0.5))
    with pytest.raises(GitFailed, match="did not end"):
        checkout.blob_of(PLAN, b"# New\n")


def test_what_is_no_checkout_says_what_it_is(repository: Repository, tmp_path: Path) -> None:
    plain, bare = tmp_path / "plain", tmp_path / "bare"
    plain.mkdir()
    repository.git("clone", "-q", "--bare", ".", str(bare))
    with pytest.raises(NoCheckout, match="no checkout of a Git repository"):
        checkout_of(plain)
    with pytest.raises(NoCheckout, match="bare repository"):
        checkout_of(bare)


def test_a_folder_that_poses_as_a_bare_repository_brings_no_configuration(repository: Repository) -> None:
    """Somebody else's folder in the checkout could hold HEAD, objects, refs and a config that runs programs."""
    trap = repository.folder / "trap"
    shutil.copytree(repository.folder / ".git", trap)
    (trap / "config").write_text("[core]\n\tbare = true\n\tfsmonitor = touch ran\n")
    with pytest.raises(NoCheckout):
        checkout_of(trap)
    assert not [*repository.folder.rglob("ran")]


def test_without_git_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoGit, match="not installed"):
        Git.at(tmp_path, {"PATH": str(tmp_path)})
