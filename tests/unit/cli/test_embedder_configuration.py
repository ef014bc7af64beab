"""The program changes its own keys in `forge.toml`, and nothing else that a person wrote there."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mcp_server.cli.embedder.configuration import FileNotChanged, change_file, changed

WRITTEN = '# mine\nkb = "/notes"   # the notes\n\n  embedder="static"\ntoolsets = [\n  "kb",\n]'


def test_a_key_is_changed_where_it_is_and_new_ones_come_last() -> None:
    after = changed(WRITTEN, {"embedder": 'onnx:/ü "x"', "embedder_dimensions": 256, "embedder_passage_prefix": None})
    assert after.startswith('# mine\nkb = "/notes"   # the notes\n\nembedder = "onnx:/ü \\"x\\""\ntoolsets = [\n')
    assert after.endswith("]\nembedder_dimensions = 256\n")
    assert tomllib.loads(after)["embedder"] == 'onnx:/ü "x"'


def test_a_key_that_is_taken_out_leaves_no_line() -> None:
    assert changed('a = 1\nembedder = "x"\nb = 2\n', {"embedder": None}) == "a = 1\nb = 2\n"
    assert changed("", {"embedder": None}) == ""


def test_a_new_file_is_private_and_a_link_stays_a_link(tmp_path: Path) -> None:
    file = tmp_path / "new" / "forge.toml"
    change_file(file, {"embedder": "static"})
    assert file.read_text(encoding="utf-8") == 'embedder = "static"\n'
    assert file.stat().st_mode & 0o077 == 0
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    file.chmod(0o640)
    change_file(link, {"embedder": "onnx:/m"})
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == 'embedder = "onnx:/m"\n'
    assert file.stat().st_mode & 0o777 == 0o640, "its permissions stay"
    assert [each.name for each in file.parent.iterdir()] == ["forge.toml"]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ('embedder = """\nstatic"""\n', "spans several lines|cannot be read"),
        ("embedder = [\n", "cannot be read as TOML"),
        ('text = """\nembedder = 1\n"""\n', "spans several lines"),
    ],
)
def test_a_file_that_cannot_be_changed_stays_and_the_lines_are_shown(tmp_path: Path, written: str, reason: str) -> None:
    file = tmp_path / "forge.toml"
    file.write_text(written, encoding="utf-8")
    with pytest.raises(FileNotChanged, match=reason) as raised:
        change_file(file, {"embedder": "onnx:/m", "embedder_passage_prefix": None})
    assert file.read_text(encoding="utf-8") == written
    assert 'embedder = "onnx:/m"' in str(raised.value)
    assert "remove these if they are there: embedder_passage_prefix" in str(raised.value)
