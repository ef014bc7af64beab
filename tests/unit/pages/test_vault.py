from __future__ import annotations

import os
import socket
import time
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING

import pytest

from knowledge.errors import InvalidPath, NoSuchPath, UnreadableDocument, VaultUnavailable
from knowledge.pages import vault as vault_module
from knowledge.pages.vault import Vault, revision_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


def put(root: Path, path: str, text: str | bytes = "# Title\n") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def found(vault: Vault) -> set[str]:
    return {scanned.path for scanned in vault.scan()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "kb"
    root.mkdir()
    return root


def test_a_missing_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(VaultUnavailable, match="create it, or name another one"):
        Vault.open(tmp_path / "nowhere")


def test_a_file_is_not_a_knowledge_base(tmp_path: Path) -> None:
    put(tmp_path, "notes.md")
    with pytest.raises(VaultUnavailable, match="it is a file"):
        Vault.open(tmp_path / "notes.md")


def test_a_folder_that_may_not_be_listed_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission bits don't stop root, who runs this test in containers; the system's answer is what counts."""

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(VaultUnavailable, match="change its permissions"):
        Vault.open(root)


def test_an_unreadable_file_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "locked.md")
    vault = Vault.open(root)
    real_open = os.open

    def refuse(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "locked.md":
            raise PermissionError(13, "Permission denied", path)
        return real_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UnreadableDocument, match=r"locked\.md cannot be read: Permission denied"):
        vault.read("locked.md")


def test_documents_are_found_whatever_their_names(root: Path) -> None:
    names = {"a.md", "b/c d.MD", "ü/ß.markdown", "🦀/crab 🦀.mdx", "deep/" * 40 + "end.md", "'quote\".md"}
    for name in names:
        put(root, name)
    assert found(Vault.open(root)) == names


def test_files_outside_the_knowledge_base_are_not_found(root: Path) -> None:
    for name in (".git/a.md", ".hidden.md", "node_modules/x/readme.md", "__pycache__/a.md", "notes.txt", "md"):
        put(root, name)
    put(root, "sub.md/inner.md")
    vault = Vault.open(root)
    assert found(vault) == {"sub.md/inner.md"}
    assert vault.problems == ()


def test_a_scanned_file_can_be_read_and_keeps_its_stamp(root: Path) -> None:
    put(root, "a b/c.md", "text")
    vault = Vault.open(root)
    (scanned,) = vault.scan()
    read = vault.read(scanned.path)
    assert (read.raw, read.stamp, read.revision) == (b"text", scanned.stamp, revision_of(b"text"))
    assert vault.find(scanned.path) == scanned


def test_a_fifo_and_a_socket_neither_block_nor_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe.md")
    monkeypatch.chdir(root)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.md")
        vault = Vault.open(root)
        assert found(vault) == set()
        assert {problem.path for problem in vault.problems} == {"pipe.md", "socket.md"}
        for name in ("pipe.md", "socket.md"):
            with pytest.raises(NoSuchPath):
                vault.read(name)


def test_a_file_over_the_limit_is_reported_and_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_module, "LARGEST_BYTES", 10)
    put(root, "big.md", "x" * 11)
    put(root, "fits.md", "x" * 10)
    vault = Vault.open(root)
    assert found(vault) == {"fits.md"}
    assert "too large" in vault.problems[0].reason
    with pytest.raises(UnreadableDocument, match="too large"):
        vault.read("big.md")


@pytest.mark.skipif(os.name == "nt", reason="needs a file system that takes any byte")
def test_names_that_cannot_be_spoken_are_counted_and_left_out(root: Path) -> None:
    raw = os.fsencode(root)
    for name in (b"\xff\xfe.md", b"line\nbreak.md", b"back\\slash.md", b"fine.md"):
        os.close(os.open(os.path.join(raw, name), os.O_CREAT | os.O_WRONLY))  # noqa: PTH118  pathlib takes no bytes
    put(root, "c:/drive.md")
    vault = Vault.open(root)
    assert found(vault) == {"fine.md"}
    assert vault.problem_count == 4
    for problem in vault.problems:
        problem.path.encode()


def test_a_link_inside_is_read_through_and_its_document_counts_once(root: Path) -> None:
    put(root, "real/doc.md", "here")
    put(root, "plain.txt", "only by link")
    (root / "alias.md").symlink_to("real/doc.md")
    (root / "folder").symlink_to("real", target_is_directory=True)
    (root / "shown.md").symlink_to("plain.txt")
    vault = Vault.open(root)
    assert found(vault) == {"real/doc.md", "shown.md"}
    assert vault.read("alias.md").raw == vault.read("folder/doc.md").raw == b"here"
    assert vault.read("shown.md").raw == b"only by link"
    assert vault.resolve("folder/doc.md") == "real/doc.md"
    assert vault.problems == ()


def test_a_link_that_leaves_or_leads_to_something_hidden_is_never_followed(root: Path, tmp_path: Path) -> None:
    """A checked-out link must not publish files beside the knowledge base, such as its `.env`."""
    put(tmp_path, "outside/secret.md", "secret")
    put(root, ".env", "secret")
    (root / "out.md").symlink_to(tmp_path / "outside" / "secret.md")
    (root / "up").symlink_to("../outside", target_is_directory=True)
    (root / "env.md").symlink_to(".env")
    vault = Vault.open(root)
    assert found(vault) == set()
    for path in ("out.md", "up/secret.md", "env.md"):
        with pytest.raises(InvalidPath):
            vault.read(path)
    with pytest.raises(InvalidPath):
        vault.list_dir("up")
    for path in ("../outside/secret.md", "/etc/passwd", ".env"):
        with pytest.raises(InvalidPath):
            vault.read(path)


def test_links_in_a_circle_end(root: Path) -> None:
    put(root, "a/doc.md")
    (root / "a" / "up").symlink_to("..", target_is_directory=True)
    (root / "self.md").symlink_to("self.md")
    (root / "dangling.md").symlink_to("nothing.md")
    vault = Vault.open(root)
    assert found(vault) == {"a/doc.md"}
    for path in ("self.md", "dangling.md"):
        with pytest.raises(NoSuchPath):
            vault.read(path)


MOST_CALLS = 24


@pytest.mark.skipif(not vault_module.HAS_OPENAT, reason="the system has no openat")
def test_a_folder_swapped_for_a_link_at_any_moment_of_a_read_leaks_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two are swapped before any one or two of the system calls of a read. Checking a path before opening it would leak."""
    put(root, "there/doc.md", "inside")
    put(tmp_path, "outside/doc.md", "secret")
    (root / "other").symlink_to("../outside", target_is_directory=True)
    vault = Vault.open(root)
    calls, moments = 0, frozenset[int]()

    def swap() -> None:
        for old, new in (("there", "away"), ("other", "there"), ("away", "other")):
            (root / old).rename(root / new)

    def watched(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            nonlocal calls
            if calls in moments:
                swap()
            calls += 1
            return real(*args, **named)

        return call

    for name in ("open", "lstat", "stat", "readlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    seen = set()
    pairs = [frozenset(pair) for pair in combinations_with_replacement(range(MOST_CALLS), 2)]
    for begins_as_link, chosen in product((False, True), (frozenset(), *pairs)):
        moments = frozenset()
        if (root / "there").is_symlink() != begins_as_link:
            swap()
        calls, moments = 0, chosen
        try:
            seen.add(vault.read("there/doc.md").raw)
        except (NoSuchPath, InvalidPath):
            seen.add(b"refused")
        assert calls <= MOST_CALLS, "it makes more calls now: raise MOST_CALLS"
    assert seen == {b"inside", b"refused"}


def test_a_file_that_changes_under_the_reader_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(root, "a.md", "old text")
    vault = Vault.open(root)
    real_read, writes = os.read, iter([b"new and longer text"])

    def read(descriptor: int, size: int) -> bytes:
        part = real_read(descriptor, min(size, 4))
        for text in writes:
            file.write_bytes(text)
        return part

    monkeypatch.setattr(os, "read", read)
    assert vault.read("a.md").raw == b"new and longer text"


def test_a_file_that_never_stays_still_comes_with_a_stamp_that_will_differ(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(root, "log.md", "x")
    vault = Vault.open(root)
    real_read = os.read

    def read(descriptor: int, size: int) -> bytes:
        part = real_read(descriptor, size)
        with file.open("ab") as log:
            log.write(b"x")
        return part

    monkeypatch.setattr(os, "read", read)
    stamp = vault.read("log.md").stamp
    monkeypatch.undo()
    looked = vault.find("log.md")
    assert looked is not None
    assert looked.stamp != stamp


def test_a_file_that_vanishes_during_a_scan_is_left_out_silently(root: Path) -> None:
    for number in range(20):
        put(root, f"d{number}/a.md")
    vault = Vault.open(root)
    paths = set()
    for scanned in vault.scan():
        paths.add(scanned.path)
        for number in range(20):
            if f"d{number}/a.md" != scanned.path and (root / f"d{number}").exists() and len(paths) == 1:
                (root / f"d{number}" / "a.md").unlink()
                (root / f"d{number}").rmdir()
    assert len(paths) == 1
    assert vault.problems == ()


def test_a_knowledge_base_that_goes_away_during_a_scan_is_not_an_empty_one(root: Path, tmp_path: Path) -> None:
    """An unmounted disk must not empty the index."""
    put(root, "a.md")
    put(root, "b.md")
    vault = Vault.open(root)
    scanning = vault.scan()
    next(scanning)
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(VaultUnavailable):
        list(scanning)
    with pytest.raises(VaultUnavailable):
        vault.read("a.md")


def test_a_listing_shows_what_a_scan_would_count(root: Path) -> None:
    for name in ("b.md", "a.md", "sub/x.md", "empty/y.txt", ".git/z.md", "notes.txt"):
        put(root, name)
    (root / "alias.md").symlink_to("a.md")
    vault = Vault.open(root)
    listing = vault.list_dir("")
    assert (listing.directories, listing.documents) == (("empty", "sub"), ("a.md", "b.md"))
    assert vault.list_dir("./sub/").documents == ("x.md",)
    assert all(map(vault.has_directory, ("", "./sub/", "empty")))
    for path in ("nowhere", "a.md", "alias.md"):
        assert not vault.has_directory(path)
        with pytest.raises(NoSuchPath):
            vault.list_dir(path)
    (root / "out").symlink_to(root.parent)
    for look in (vault.has_directory, vault.list_dir):
        with pytest.raises(InvalidPath):
            look("out")


def test_problems_are_bounded_and_counted(root: Path) -> None:
    for number in range(vault_module.MOST_PROBLEMS + 5):
        os.mkfifo(root / f"{number}.md")
    vault = Vault.open(root)
    list(vault.scan())
    assert (len(vault.problems), vault.problem_count) == (vault_module.MOST_PROBLEMS, vault_module.MOST_PROBLEMS + 5)


def test_only_folders_that_changed_are_listed_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/one.md", "a/deep/two.png", "b/three.canvas"):
        put(root, name)
    vault, listed = Vault.open(root), list[str]()
    scandir = os.scandir

    def noted(path: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        listed.append(os.path.relpath(path, vault.root))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)

    def look() -> tuple[set[str], set[str]]:
        listed.clear()
        return set(vault.file_paths()), set(listed)

    everything = {"a/one.md", "a/deep/two.png", "b/three.canvas"}
    folders = {".", "a", "a/deep", "b"}
    # They were made just now: another file could come within the same tick of the file system's clock.
    assert [look(), look()] == [(everything, folders)] * 2
    monkeypatch.setattr("knowledge.pages.vault.UNSETTLED_NS", -3_600_000_000_000)
    assert [look(), look()] == [(everything, folders), (everything, set())]

    time.sleep(0.05)  # the file system's clock must have moved on
    put(root, "a/deep/four.md")
    (root / "b" / "three.canvas").unlink()
    assert look() == ({"a/one.md", "a/deep/two.png", "a/deep/four.md"}, {"a/deep", "b"})
    time.sleep(0.05)
    (root / "a").rename(root / "c")
    assert look() == ({"c/one.md", "c/deep/two.png", "c/deep/four.md"}, {".", "c", "c/deep"})
