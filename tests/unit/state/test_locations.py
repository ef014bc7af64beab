"""Where the databases are."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path

import pytest

from knowledge.errors import NoUserFolder, UnsafeStateDirectory
from knowledge.state.locations import default_schema, indexing_lease, server_index_name, state_dir_for, user_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / "state"))
    return tmp_path / "home"


def vault(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_each_knowledge_base_has_its_own_private_folder_with_a_readable_name(tmp_path: Path) -> None:
    one, two = vault(tmp_path / "a" / "Team Notes"), vault(tmp_path / "b" / "Team Notes")
    first, second = state_dir_for(one, None), state_dir_for(two, None)
    assert first != second
    assert first.name.startswith("Team-Notes-")
    assert first.parent.name == "knowledge-forge"
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert state_dir_for(one, None) == first


def test_a_link_to_a_knowledge_base_has_its_targets_state(tmp_path: Path) -> None:
    real = vault(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    assert state_dir_for(tmp_path / "link", None) == state_dir_for(real, None)


def test_a_state_directory_inside_the_knowledge_base_is_refused_and_not_made(tmp_path: Path) -> None:
    """Design, section 2: a model that may edit files must not be able to edit its own trust."""
    root = vault(tmp_path / "kb")
    (tmp_path / "way-in").symlink_to(root)
    for inside in (root, root / "state", tmp_path / "way-in" / "state"):
        with pytest.raises(UnsafeStateDirectory, match="inside the knowledge base"):
            state_dir_for(root, inside)
    assert list(root.iterdir()) == []


def test_a_knowledge_base_that_holds_the_default_place_is_refused(home: Path) -> None:
    home.mkdir()
    with pytest.raises(UnsafeStateDirectory, match="--state-dir"):
        state_dir_for(home, None)


def test_a_named_directory_is_used_unchanged(tmp_path: Path) -> None:
    root = vault(tmp_path / "kb")
    assert state_dir_for(root, tmp_path / "own") == tmp_path / "own"


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UnsafeStateDirectory, match="cannot be made"):
        state_dir_for(vault(tmp_path / "kb"), tmp_path / "file")


def test_a_folder_whose_id_cannot_be_read_is_refused_and_not_named_at_random(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with pytest.raises(UnsafeStateDirectory, match="cannot be written to: Is a directory"):
        server_index_name(tmp_path)


def test_an_index_on_a_server_has_a_stable_name_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "Ä notes", tmp_path / "b"
    one.mkdir()
    other.mkdir()
    name = server_index_name(one)
    assert re.fullmatch(r"forge-notes-[0-9a-f]{10}", name)
    assert server_index_name(one) == name
    assert server_index_name(other) != name


def test_a_schema_is_named_after_the_folder_and_its_path(tmp_path: Path) -> None:
    """Two knowledge bases must not share their trust because their folders have the same name."""
    one, two = tmp_path / "a" / "Team Notes (2026)", tmp_path / "b" / "Team Notes (2026)"
    assert default_schema(one).startswith("forge_team_notes_2026_")
    assert default_schema(one) != default_schema(two)
    assert default_schema(tmp_path / ("x" * 200)) == default_schema(tmp_path / "y" / ".." / ("x" * 200))
    assert len(default_schema(tmp_path / ("x" * 200))) <= 63
    assert default_schema(tmp_path / "заметки").startswith("forge_knowledge_")


def test_all_processes_of_a_machine_name_an_indexs_lease_the_same_and_no_other_index_so(tmp_path: Path) -> None:
    names = set()
    for name in ("one", "two", "one"):
        (tmp_path / name).mkdir(exist_ok=True)
        names.add(indexing_lease(tmp_path / name))
    assert len(names) == 2
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    assert indexing_lease(tmp_path / "copy") not in names


def test_a_relative_folder_in_a_variable_never_puts_the_state_into_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the XDG specification such a variable is ignored.

    An attacker may have made the working directory, with a state.db in it.
    """
    root = vault(tmp_path / "kb")
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert not state_dir_for(root, None).is_relative_to(tmp_path / "clone")
    with pytest.raises(NoUserFolder, match="--state-dir"):
        user_folder(lambda *_, **__: "state/knowledge-forge", "name a directory with --state-dir")
