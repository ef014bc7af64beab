"""Where each host keeps its servers, how our entry looks there, and how the file is changed."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from mcp_server.hosts.catalogue import HOSTS, HostMachine, host_named
from mcp_server.hosts.entry import MASKED, NAME, Launch, Served, kb_of, key_for, masked, server_entry
from mcp_server.hosts.files import ConfigurationRefused, backups, check_writable, read, rewrite

LAUNCH = Launch("/venv/bin/knowledge-forge")
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def file_of(host: str, place: HostMachine, *, project: bool = False) -> str | None:
    known = host_named(host)
    assert known is not None
    file = known.config_file(place, project=project)
    return file.relative_to(place.home).as_posix() if file else None


FILES = [
    ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
    ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
    ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
    ("win32", "vscode", "AppData/Roaming/Code/User/mcp.json"),
    ("linux", "vscode", ".config/Code/User/mcp.json"),
    *((platform, "cursor", ".cursor/mcp.json") for platform in ("darwin", "win32", "linux")),
    *((platform, "claude-code", ".claude.json") for platform in ("darwin", "win32", "linux")),
]


@pytest.mark.parametrize(("platform", "host", "expected"), FILES)
def test_every_host_has_its_file_on_every_platform(tmp_path: Path, platform: str, host: str, expected: str) -> None:
    """The vendors' pages, named in catalogue.py."""
    assert file_of(host, HostMachine(platform, tmp_path, tmp_path / "work", {})) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("claude-desktop", None),
        ("claude-code", "work/.mcp.json"),
        ("cursor", "work/.cursor/mcp.json"),
        ("vscode", "work/.vscode/mcp.json"),
    ],
)
def test_a_project_has_its_own_file(tmp_path: Path, host: str, expected: str | None) -> None:
    assert file_of(host, HostMachine("linux", tmp_path, tmp_path / "work", {}), project=True) == expected


def test_the_environment_moves_files_as_it_does_for_the_host(tmp_path: Path) -> None:
    moved = {"APPDATA": tmp_path / "r", "XDG_CONFIG_HOME": tmp_path / "x", "CLAUDE_CONFIG_DIR": tmp_path / "c"}
    environ = {name: str(path) for name, path in moved.items()}
    assert file_of("vscode", HostMachine("win32", tmp_path, tmp_path, environ)) == "r/Code/User/mcp.json"
    assert file_of("vscode", HostMachine("linux", tmp_path, tmp_path, environ)) == "x/Code/User/mcp.json"
    assert file_of("claude-code", HostMachine("linux", tmp_path, tmp_path, environ)) == "c/.claude.json"
    assert (
        file_of("vscode", HostMachine("linux", tmp_path, tmp_path, {"XDG_CONFIG_HOME": "x"}))
        == ".config/Code/User/mcp.json"
    )


def test_the_packaged_claude_desktop_reads_only_inside_its_container(tmp_path: Path) -> None:
    """github.com/anthropics/claude-code/issues/26073: the file in %APPDATA% is never read by the current package."""
    packages = tmp_path / "AppData" / "Local" / "Packages"
    inside = "LocalCache/Roaming/Claude"
    place = HostMachine("win32", tmp_path, tmp_path, {})
    (packages / "Claude_aaa" / inside).mkdir(parents=True)
    container = "AppData/Local/Packages/Claude_{}/LocalCache/Roaming/Claude/claude_desktop_config.json"
    assert file_of("claude-desktop", place) == container.format("aaa")
    (packages / "Claude_bbb" / inside).mkdir(parents=True)
    (packages / "Claude_bbb" / inside / "claude_desktop_config.json").write_text("{}", encoding="utf-8")
    assert file_of("claude-desktop", place) == container.format("bbb")


def test_hosts_have_distinct_names_and_say_how_to_restart() -> None:
    assert len({host.id for host in HOSTS}) == len({host.name for host in HOSTS}) == len(HOSTS)
    assert all(host.restart.endswith(".") for host in HOSTS)


def test_the_file_of_every_host_is_known_for_every_platform() -> None:
    missing = {(p, host.id) for p in ("darwin", "win32", "linux") for host in HOSTS} - {
        (p, host) for p, host, _ in FILES
    }
    assert not missing, "add these to FILES, as the vendor documents them"


def test_an_entry_has_what_the_host_needs_and_no_more() -> None:
    assert server_entry(LAUNCH, Served("/kb"), "s3cret", typed=False) == {
        "command": "/venv/bin/knowledge-forge",
        "args": ["serve", "--kb", "/kb"],
        "env": {"FORGE_ENROLMENT": "s3cret"},
    }
    launch = Launch("/py", ("-m", "mcp_server"), {"PYTHONPATH": "/src"})
    assert server_entry(launch, Served("/kb", "/state"), "s3cret", typed=True) == {
        "type": "stdio",
        "command": "/py",
        "args": ["-m", "mcp_server", "serve", "--kb", "/kb", "--state-dir", "/state"],
        "env": {"PYTHONPATH": "/src", "FORGE_ENROLMENT": "s3cret"},
    }


def test_a_persons_additions_to_the_entry_outlive_a_new_secret() -> None:
    """A knowledge base that was made read-only must not become writable by installing again."""
    earlier = {
        "command": "uvx",
        "args": ["knowledge-forge", "serve", "--kb=/kb", "--read-only", "--state-dir", "/old", "--toolsets", "trust"],
        "env": {"FORGE_ENROLMENT": "old", "FORGE_ANSWER_TOKENS": "900"},
        "timeout": 60,
    }
    entry = server_entry(LAUNCH, Served("/kb"), "new", typed=False, earlier=earlier)
    assert entry["args"] == ["serve", "--kb", "/kb", "--read-only", "--toolsets", "trust"]
    assert entry["env"] == {"FORGE_ENROLMENT": "new", "FORGE_ANSWER_TOKENS": "900"}
    assert (entry["command"], entry["timeout"]) == ("/venv/bin/knowledge-forge", 60)


def test_an_entry_is_shown_without_its_secret() -> None:
    shown = masked(server_entry(LAUNCH, Served("/kb"), "s3cret", typed=False))
    assert "s3cret" not in repr(shown)
    assert shown["env"] == {"FORGE_ENROLMENT": MASKED}


@pytest.mark.parametrize(
    ("entry", "kb"),
    [
        ({"command": "/venv/bin/knowledge-forge", "args": ["serve", "--kb", "/kb"]}, "/kb"),
        ({"command": r"C:\v\Scripts\knowledge-forge.exe", "args": ["serve", r"--kb=C:\kb"]}, r"C:\kb"),
        ({"command": "/py", "args": ["-m", "mcp_server", "serve", "--kb", "/kb"]}, "/kb"),
        ({"command": "uvx", "args": ["knowledge-forge", "serve"], "env": {"FORGE_KB": "/kb"}}, "/kb"),
        ({"command": "knowledge-forge", "args": ["serve"]}, None),
        ({"command": "knowledge-forge", "args": ["serve", "--kb"]}, None),
        ({"command": "other", "args": ["serve", "--kb", "/kb"]}, None),
        ({"command": "knowledge-forge", "args": "serve --kb /kb"}, None),
        ({"url": "https://example.org"}, None),
        ("knowledge-forge", None),
        (None, None),
    ],
)
def test_our_entries_are_recognised_by_their_command(entry: object, kb: str | None) -> None:
    assert kb_of(entry) == kb


def test_each_knowledge_base_has_its_own_key() -> None:
    def entry(kb: str) -> dict[str, object]:
        return server_entry(LAUNCH, Served(kb), "s", typed=False)

    def key(servers: dict[str, object], kb: str) -> tuple[str, bool]:
        return key_for(servers, kb.rpartition("/")[2], same=lambda folder: folder == kb)

    assert key({}, "/a/notes") == (NAME, False)
    one: dict[str, object] = {NAME: entry("/a/notes")}
    assert key(one, "/a/notes") == (NAME, True)
    assert key(one, "/a/Team Wiki") == (f"{NAME}-team-wiki", False)
    assert key(one, "/a/日本") == (f"{NAME}-kb", False)
    two = one | {f"{NAME}-wiki": entry("/a/wiki")}
    assert key(two, "/b/wiki") == (f"{NAME}-wiki-2", False)
    assert key({"renamed": entry("/a/notes")}, "/a/notes") == ("renamed", True)
    assert key({NAME: {"command": "something else"}}, "/a/notes") == (f"{NAME}-notes", False)


def test_a_change_keeps_mode_and_leaves_one_copy(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(b"\xef\xbb\xbf{}\r\n")
    file.chmod(0o640)
    done = rewrite(file, lambda text: text + "// new")
    assert file.read_bytes() == b"\xef\xbb\xbf{}\r\n// new"
    assert done.backup == tmp_path / "mcp.json.bak-knowledge-forge-1"
    assert done.backup.read_bytes() == b"\xef\xbb\xbf{}\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(done.backup.stat().st_mode) == 0o640
    assert {p.name for p in tmp_path.iterdir()} == {"mcp.json", "mcp.json.bak-knowledge-forge-1"}


def test_a_new_file_is_the_persons_alone(tmp_path: Path) -> None:
    """It holds a secret."""
    file = tmp_path / "deep" / "mcp.json"
    assert rewrite(file, lambda text: text + "{}").backup is None
    assert file.read_text(encoding="utf-8") == "{}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_copies_are_numbered_and_none_is_made_twice(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    for number in range(12):
        file.write_text(str(number), encoding="utf-8")
        assert rewrite(file, lambda _: "x").changed
    assert [copy.read_text(encoding="utf-8") for copy in backups(file)] == [str(number) for number in range(12)]
    file.write_text("3", encoding="utf-8")
    assert rewrite(file, lambda _: "x").backup is None
    file.write_text("3 and ours", encoding="utf-8")
    assert rewrite(file, lambda _: "x", same=lambda text: frozenset({text.removesuffix(" and ours")})).backup is None
    assert len(backups(file)) == 12


def test_nothing_to_change_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("{}", encoding="utf-8")
    before = file.stat()
    assert not rewrite(file, lambda text: text).changed
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not rewrite(tmp_path / "absent.json", lambda text: text).changed
    assert [p.name for p in tmp_path.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize("dangling", [False, True])
def test_a_symlink_stays_one_and_its_target_changes(tmp_path: Path, *, dangling: bool) -> None:
    """Configuration that people keep in a dotfiles repository."""
    target = tmp_path / "dotfiles" / "mcp.json"
    target.parent.mkdir()
    if not dangling:
        target.write_text("{}", encoding="utf-8")
    link = tmp_path / "mcp.json"
    link.symlink_to(target)
    rewrite(link, lambda _: "new")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"
    assert [copy.parent for copy in backups(link)] == ([] if dangling else [target.parent])


def test_the_hosts_own_changes_meanwhile_are_kept(tmp_path: Path) -> None:
    """Claude Code writes its file at every turn."""
    file = tmp_path / "mcp.json"
    file.write_text("a", encoding="utf-8")
    seen: list[str] = []

    def edit(text: str) -> str:
        seen.append(text)
        if len(seen) == 1:
            file.write_text("b", encoding="utf-8")
        return text + " and ours"

    rewrite(file, edit)
    assert seen == ["a", "b"]
    assert file.read_text(encoding="utf-8") == "b and ours"


def test_a_file_that_never_rests_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("0", encoding="utf-8")

    def edit(text: str) -> str:
        file.write_text(text + "0", encoding="utf-8")
        return "ours"

    with pytest.raises(ConfigurationRefused, match="keeps writing"):
        rewrite(file, edit)
    assert set(file.read_text(encoding="utf-8")) == {"0"}
    assert [p.name for p in tmp_path.iterdir()] == ["mcp.json"]


def test_readers_see_the_old_file_or_the_new_one_and_never_half(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    texts = {letter * 200_000 for letter in "ab"}
    file.write_text("a" * 200_000, encoding="utf-8")
    done = threading.Event()
    seen: set[str | None] = set()

    def look() -> None:
        while not done.is_set():
            seen.add(read(file))

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(20):
        rewrite(file, lambda text: ("b" if text[0] == "a" else "a") * 200_000, backup=False)
    done.set()
    reader.join()
    assert seen <= texts


def test_an_unreadable_file_is_refused_by_name(tmp_path: Path) -> None:
    folder, odd, loop = tmp_path / "folder", tmp_path / "odd", tmp_path / "loop"
    folder.mkdir()
    odd.write_bytes("ä".encode("utf-16"))
    loop.symlink_to(loop)
    for path in (folder, odd, loop):
        with pytest.raises(ConfigurationRefused, match=f"{path.name} was not changed"):
            read(path)
        with pytest.raises(ConfigurationRefused):
            rewrite(path, lambda _: "x")


def test_a_file_in_the_way_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationRefused):
        check_writable(tmp_path / "file" / "mcp.json")
    check_writable(tmp_path / "not" / "yet" / "mcp.json")


@pytest.mark.skipif(AS_ROOT, reason="root may write everywhere")
def test_a_folder_that_is_not_ours_to_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigurationRefused, match="nothing can be written"):
        check_writable(tmp_path / "mcp.json")
