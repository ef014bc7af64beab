"""Files that decide something are read only if no other account can have written them."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from knowledge.errors import UnsafeStateDirectory
from knowledge.state import ownership
from knowledge.state.locations import state_dir_for
from knowledge.state.ownership import Exposure, others_could_read, others_could_replace, others_could_write
from mcp_server.app.settings.loader import BadSetting, load

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows keeps no modes")
SOMEBODY = 54_321
"""An account and a group that don't exist."""

as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a correct file, with its own folder for each part of its path."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    for made in (tmp_path / "a", folder):
        made.chmod(0o755)
    (folder / "forge.toml").write_text("answer_tokens = 900\n", encoding="utf-8")
    (folder / "forge.toml").chmod(0o644)
    return folder / "forge.toml"


def refused(file: Path) -> str:
    """Return why the file is refused as a configuration."""
    with pytest.raises(BadSetting) as caught:
        load({}, {"FORGE_CONFIG": str(file)})
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_a_file_that_only_its_owner_writes_is_read(file: Path) -> None:
    assert load({}, {"FORGE_CONFIG": str(file)}).answer_tokens == 900


@pytest.mark.parametrize("which", [".", "..", "../.."])
def test_a_file_that_everyone_could_replace_is_refused(file: Path, which: str) -> None:
    open_to_all = (file / which).resolve()
    open_to_all.chmod(0o777)
    assert f"any account can write to {open_to_all}" in refused(file)


def test_in_a_sticky_folder_nobody_replaces_others_files(file: Path) -> None:
    file.parent.chmod(0o1777)
    assert others_could_replace(file) is None
    file.chmod(0o666)
    assert others_could_replace(file)


def test_in_a_sticky_folder_anyone_can_create_a_missing_file(file: Path) -> None:
    """Known gap until now: a folder such as /tmp was accepted as the state folder, where another account could add a `state.db`."""
    file.parent.chmod(0o1777)
    for exposed in (others_could_replace(file.with_name("missing")), others_could_write(file.parent)):
        assert exposed == Exposure(f"any account can write to {file.parent}", f"chmod o-w {file.parent}")
    (kb := file.parent.parent / "kb").mkdir()
    with pytest.raises(UnsafeStateDirectory, match="any account can write to"):
        state_dir_for(kb, file.parent)


def test_an_open_file_is_checked_itself_and_not_by_its_name(file: Path) -> None:
    file.chmod(0o666)
    with file.open(encoding="utf-8") as opened:
        file.rename(file.with_name("old"))
        file.write_text("", encoding="utf-8")
        file.chmod(0o600)
        assert others_could_write(file) is others_could_read(file) is None
        assert others_could_write(file, opened.fileno()) is not None
        assert others_could_read(file, opened.fileno()) is not None


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o602, 0o601])
def test_a_secret_has_no_permissions_for_anyone_else(file: Path, mode: int) -> None:
    file.chmod(0o600)
    assert others_could_read(file) is None
    file.chmod(mode)
    assert others_could_read(file) == Exposure(f"other accounts can read {file}", f"chmod 600 {file}")


def test_the_command_in_the_message_fixes_the_problem(file: Path) -> None:
    spaced = file.parent / "it's a file"
    file.rename(spaced)
    for path, mode, judge in (
        (spaced, 0o646, others_could_replace),
        (spaced.parent, 0o777, others_could_replace),
        (spaced, 0o644, others_could_read),
        (spaced.parent, 0o755, others_could_read),
    ):
        path.chmod(mode)
        exposed = judge(path)
        assert exposed is not None
        assert str(exposed) == f"{exposed.problem}; to fix it: {exposed.mend}"
        subprocess.run(exposed.mend, shell=True, check=True)  # noqa: S602 - as a person would
        assert judge(path) is None


@as_root
def test_the_command_takes_ownership_of_a_link_and_not_of_its_target(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    os.chown(link, SOMEBODY, -1, follow_symlinks=False)
    exposed = others_could_replace(link)
    assert exposed is not None
    assert exposed.mend == f"chown -h 0 {link}"


@as_root
@pytest.mark.parametrize("which", [".", "..", "../.."])
def test_another_accounts_file_is_refused(file: Path, which: str) -> None:
    theirs = (file / which).resolve()
    os.chown(theirs, SOMEBODY, -1)
    assert f"{theirs} belongs to another account" in refused(file)


@as_root
@pytest.mark.parametrize("which", [".", "..", "../.."])
def test_a_group_writable_file_is_refused(file: Path, which: str) -> None:
    shared = (file / which).resolve()
    os.chown(shared, -1, SOMEBODY)
    shared.chmod(0o775)
    assert f"other accounts in group {SOMEBODY} can write to {shared}" in refused(file)


@pytest.mark.parametrize(
    ("name", "members", "says"),
    [
        ("ann", [], None),
        ("ann", ["ann"], None),
        ("ann", ["ann", "bob"], "other accounts in group"),
        ("staff", [], "other accounts in group"),
    ],
)
def test_a_group_that_is_the_owners_alone_counts_as_the_owner(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], says: str | None
) -> None:
    """Debian, Ubuntu and Fedora give each user a group, and everything they make is writable for it (umask 002)."""
    file.chmod(0o664)
    me = pwd.struct_passwd(("ann", "x", os.geteuid(), os.getegid(), "", str(file.parent.parent.parent), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: me)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, members)))
    why = others_could_replace(file)
    assert why is None if says is None else says in str(why)


def test_an_access_list_is_no_group_of_the_owner_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an ACL the group's bits show the rights of the most powerful account on it."""
    file.chmod(0o664)
    monkeypatch.setattr(ownership, "_has_access_list", lambda path: path == file)
    assert "other accounts" in str(others_could_replace(file))


@pytest.mark.usefixtures("file")
def test_every_folder_that_a_link_leads_through_is_judged(tmp_path: Path) -> None:
    """An account that may replace the link chooses the file, even one of the owner's own.

    Files of a cloned repository are the owner's, too.
    """
    shared = tmp_path / "shared"
    shared.mkdir()
    link, chained = shared / "forge.toml", tmp_path / "forge.toml"
    link.symlink_to("../a/b/forge.toml")
    chained.symlink_to(link)
    assert load({}, {"FORGE_CONFIG": str(chained)}).answer_tokens == 900
    shared.chmod(0o777)
    assert f"any account can write to {shared}" in refused(chained)
    shared.chmod(0o1777)
    assert others_could_replace(chained) is None
    if os.geteuid() == 0:
        os.chown(link, SOMEBODY, -1, follow_symlinks=False)
        assert f"{link} belongs to another account" in refused(chained)


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "links" in str(others_could_replace(tmp_path / "a"))


def test_folders_above_the_home_are_the_administrators(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sandbox that maps no other account they seem to belong to nobody."""
    file.parent.parent.chmod(0o777)
    assert others_could_replace(file)
    monkeypatch.setattr(ownership, "_home", lambda: file.parent)
    assert others_could_replace(file) is None
    file.parent.chmod(0o777)
    assert others_could_replace(file)


@pytest.mark.parametrize("variable", ["FORGE_MODEL_KEY_FILE", "ZULIP_CONFIG", "PLANE_CA"])
def test_files_that_settings_name_are_judged_too(tmp_path: Path, variable: str) -> None:
    """The key and its authority determine who can read along."""
    named = tmp_path / "named"
    named.write_text("sk-0123456789\n", encoding="utf-8")
    named.chmod(0o646)
    with pytest.raises(BadSetting, match="any account can write to") as caught:
        load({}, {"FORGE_MODEL": "anthropic:m", variable: str(named)}, cwd=tmp_path)
    assert caught.value.name == variable


def test_a_state_folder_that_others_could_have_filled_is_refused(tmp_path: Path) -> None:
    """A prepared `state.db` decides who is trusted."""
    kb, folder = tmp_path / "kb", tmp_path / "state"
    kb.mkdir()
    assert state_dir_for(kb, folder) == folder
    (folder / "state.db").touch()
    folder.chmod(0o777)
    with pytest.raises(UnsafeStateDirectory, match="any account can write to"):
        state_dir_for(kb, folder)
    folder.chmod(0o755)
    assert state_dir_for(kb, folder) == folder
    (folder / "state.db").chmod(0o666)
    with pytest.raises(UnsafeStateDirectory, match=r"any account can write to .*state\.db"):
        state_dir_for(kb, folder)


@as_root
@pytest.mark.parametrize("name", [".", "state.db", "state.db-wal", "index.db"])
def test_a_state_of_another_account_is_refused(tmp_path: Path, name: str) -> None:
    kb, folder = tmp_path / "kb", tmp_path / "state"
    kb.mkdir()
    folder.mkdir()
    (folder / name).touch()
    os.chown(folder / name, SOMEBODY, -1)
    with pytest.raises(UnsafeStateDirectory, match="belongs to another account"):
        state_dir_for(kb, folder)
