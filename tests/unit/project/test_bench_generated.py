"""One command writes every generated file, whatever state the others are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_server.toolsets import spec
from tests.bench import generated
from tests.bench.__main__ import main


def test_the_pages_do_not_depend_on_the_schemas_that_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an edit of the arguments, the stored schemas are those from before it."""
    before = generated.contents()
    outdated = {"input": {"type": "object", "properties": {}}, "output": {"type": "object", "properties": {}}}
    monkeypatch.setattr(spec, "stored_schemas", lambda: dict.fromkeys(("kb_search", "kb_map"), outdated))
    assert generated.contents() == before


def test_only_files_that_are_out_of_date_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"new.md": "new\n", "old.md": "old\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    monkeypatch.setattr(generated, "contents", lambda: {"new.md": "new\n", "old.md": "newer\n"})
    assert main(["generated"]) == 0
    assert capsys.readouterr().out == "wrote old.md\n"
    assert (tmp_path / "old.md").read_text(encoding="utf-8") == "newer\n"
