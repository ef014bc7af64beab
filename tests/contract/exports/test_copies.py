"""Exports that hold the pages as they are: whole or not at all, and never over something else."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_server.exports.destination import MANIFEST, FolderWriter
from tests.support.hosts.persons import ME
from tests.support.knowledge_bases.importing_person import ImportingPerson, contents, importing_person

PAGES = {
    "_index.md": "---\nexclude: [archive/*]\n---\n# Home\n\nSee [tea](drinks/tea.md) and [[Coffee]].\n",
    "drinks/tea.md": "---\ntitle: Tea\ntags: [hot]\naliases: [cha]\n---\n# Tea\r\n\r\nSteep it. See [gone](gone.md).\r\n",
    "drinks/coffee.md": "# Coffee\n\nNo line end",
    "archive/old.md": "# Old\n",
}
PICTURE = b"\x89PNG\r\n\x1a\n\x00not really"


@pytest.fixture
def ann(tmp_path: Path) -> ImportingPerson:
    person = importing_person(tmp_path / "ann")
    for path, text in PAGES.items():
        (person.kb / path).parent.mkdir(parents=True, exist_ok=True)
        (person.kb / path).write_bytes(text.encode())
    (person.kb / "drinks" / "cup.png").write_bytes(PICTURE)
    (person.kb / "latin.md").write_bytes(b"caf\xe9\n")
    return person


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_folder_holds_pages_and_attachments_byte_for_byte_and_their_digests(ann: ImportingPerson) -> None:
    out = ann.folder / "out"
    done = ann.here("export", "folder", str(out))
    assert done.returncode == 0, done.stderr
    there, here = contents(out), contents(ann.kb)
    assert there == {path: raw for path, raw in here.items() if path != "archive/old.md"}
    head, *files = lines(out / MANIFEST)
    assert (head["format"], head["version"], head["pages"], head["attachments"]) == ("knowledge-forge-folder", 1, 4, 1)
    assert {file["path"]: file["sha256"] for file in files} == {
        path: hashlib.sha256(raw).hexdigest() for path, raw in there.items()
    }
    assert "4 pages and 1 attachment" in done.stdout
    assert "1 files are left out because `exclude` names them" in done.stderr


def test_a_line_of_json_has_text_names_links_and_history(ann: ImportingPerson) -> None:
    ann.here("edit", "drinks/tea.md", "--from", str(ann.kb / "drinks" / "tea.md"))
    (ann.folder / "more.md").write_text("# Home\n\nA new line.\n")
    assert ann.here("new", "new.md", "--from", str(ann.folder / "more.md")).returncode == 0
    file = ann.folder / "pages.jsonl"
    assert ann.here("export", "jsonl", str(file), "--history").returncode == 0
    head, *pages = lines(file)
    assert (head["format"], head["pages"]) == ("knowledge-forge-pages", len(pages))
    found = {str(page["path"]): page for page in pages}
    tea, home, latin, new = found["drinks/tea.md"], found["_index.md"], found["latin.md"], found["new.md"]
    assert (tea["title"], tea["tags"], tea["aliases"], tea["text"]) == ("Tea", ["hot"], ["cha"], PAGES["drinks/tea.md"])
    assert tea["links"] == [{"target": "gone.md", "wiki": False, "path": None}]
    assert home["links"] == [
        {"target": "drinks/tea.md", "wiki": False, "path": "drinks/tea.md"},
        {"target": "Coffee", "wiki": True, "path": "drinks/coffee.md"},
    ]
    assert (latin["base64"], "text" in latin) == ("Y2Fm6Qo=", False)
    assert [one["source"] for one in new["claims"]] == ["user"]
    (state,) = new["history"]
    assert (state["by"], state["tool"], state["revision"]) == (f"{ME}@importer", "kb_merge", new["revision"])


def test_standard_output_carries_the_pages_and_nothing_else(ann: ImportingPerson) -> None:
    done = ann.run("export", "jsonl", "-")
    assert [json.loads(line).get("path") for line in done.stdout.splitlines()][1:] == [
        "_index.md",
        "drinks/coffee.md",
        "drinks/tea.md",
        "latin.md",
    ]
    assert ann.here("export", "jsonl", "-", "--json").returncode == 2


def test_an_earlier_export_is_replaced_and_anything_else_is_not(ann: ImportingPerson) -> None:
    out, own = ann.folder / "out", ann.folder / "own"
    for _ in range(2):
        assert ann.here("export", "folder", str(out)).returncode == 0
    (ann.kb / "latin.md").unlink()
    assert ann.here("export", "folder", str(out)).returncode == 0
    assert "latin.md" not in contents(out)

    own.mkdir()
    (own / "mine.txt").write_text("mine")
    for place, kept in ((own, "mine.txt"), (out, "added.txt"), (out, "_index.md")):
        (place / kept).write_text("mine")
        done = ann.here("export", "folder", str(place))
        assert (done.returncode, (place / kept).read_text()) == (1, "mine")
        assert "nothing was exported" in done.stderr
        (place / kept).write_text("mine")
        if kept == "added.txt":
            (place / kept).unlink()
    file = ann.folder / "file.txt"
    file.write_text("mine")
    assert ann.here("export", "jsonl", str(file)).returncode == 1
    assert file.read_text() == "mine"
    assert [path for path in ann.folder.iterdir() if ".partial" in path.name or ".earlier" in path.name] == []


@pytest.mark.parametrize("place", ["kb/out", "kb", "."])
def test_a_destination_in_or_around_the_knowledge_base_is_refused(ann: ImportingPerson, place: str) -> None:
    before = contents(ann.kb)
    done = ann.here("export", "folder", str(ann.folder / place))
    assert (done.returncode, contents(ann.kb)) == (1, before)
    assert "knowledge base" in done.stderr


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="links")
def test_no_link_is_followed_out(ann: ImportingPerson) -> None:
    (ann.folder / "secret.txt").write_text("secret")
    (ann.kb / "leak.txt").symlink_to(ann.folder / "secret.txt")
    (ann.kb / "leak.md").symlink_to(ann.folder / "secret.txt")
    (ann.kb / "folder").symlink_to(ann.folder)
    out = ann.folder / "out"
    done = ann.here("export", "folder", str(out))
    assert done.returncode == 0
    assert b"secret" not in b"".join(contents(out).values())
    assert "left out: leak.txt: it is a link" in done.stderr
    assert "left out: leak.md" in done.stderr


def test_an_export_that_fails_leaves_the_earlier_one(ann: ImportingPerson, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ann.folder / "out"
    assert ann.here("export", "folder", str(out)).returncode == 0
    before = contents(out)
    (ann.kb / "new.md").write_text("# New\n")

    def fills_the_disk(_self: FolderWriter, _path: str, _raw: bytes) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FolderWriter, "write", fills_the_disk)
    done = ann.here("export", "folder", str(out))
    assert (done.returncode, "No space left" in done.stderr) == (1, True)
    assert contents(out) == before
    assert [path.name for path in ann.folder.iterdir() if ".partial" in path.name] == []
