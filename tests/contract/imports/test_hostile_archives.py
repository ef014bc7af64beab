"""Archives and folders that want to write elsewhere, read elsewhere, or fill the machine."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import pytest

from mcp_server.imports.readers import source_tree
from tests.support.knowledge_bases.importing_person import (
    ImportingPerson,
    contents,
    imported,
    importing_person,
    statuses,
)

ID = "41fb48ff63e848c8a9ccc2b4ade99fa2"
PAGE = f"Fine {ID}.md"


@pytest.fixture
def ann(tmp_path: Path) -> ImportingPerson:
    return importing_person(tmp_path / "ann")


def packed(ann: ImportingPerson, *entries: tuple[str | zipfile.ZipInfo, bytes], name: str = "export.zip") -> Path:
    file = ann.folder / name
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr(PAGE, "# Fine\n")
        for entry, content in entries:
            writer.writestr(entry, content)
    return file


@pytest.mark.parametrize(
    "name",
    ["../out.md", "/etc/out.md", "a/../../out.md", "..\\out.md", "C:/out.md", "a\x1b.md", ".git/config", "a/.env.md"],
)
def test_a_name_that_leads_elsewhere_is_skipped(ann: ImportingPerson, name: str) -> None:
    answer = imported(ann, "notion", packed(ann, (name, b"# Out\n")))
    assert (set(contents(ann.kb)), len(answer["skipped"])) == ({"Fine.md"}, 1)
    assert not list(ann.folder.glob("**/out.md"))


@pytest.mark.parametrize(
    "name", ["CON.md", "aux.tar.md", "trailing. .md", "nul", "a" * 240 + ".md", "ab:c.md", "x\u202egpj.md"]
)
def test_a_name_that_some_system_can_not_have_is_changed(ann: ImportingPerson, name: str) -> None:
    imported(ann, "notion", packed(ann, (name, b"# Odd\n")))
    names = set(contents(ann.kb)) - {"Fine.md"}
    assert len(names) == 1
    assert names != {name}
    assert all(len(one.encode()) <= 255 and one.split(".")[0].lower() not in ("con", "aux", "nul") for one in names)


def test_links_in_an_archive_are_not_made(ann: ImportingPerson) -> None:
    link = zipfile.ZipInfo("link.md")
    link.external_attr = 0o120777 << 16
    answer = imported(ann, "notion", packed(ann, (link, b"/etc/passwd")))
    assert (set(contents(ann.kb)), [one["reason"] for one in answer["skipped"]]) == (
        {"Fine.md"},
        ["a link, which an import does not follow"],
    )


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="links")
def test_links_in_a_folder_are_not_followed(ann: ImportingPerson) -> None:
    vault = ann.folder / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("# A\n")
    (vault / "b.md").symlink_to("/etc/passwd")
    (vault / "c").symlink_to("/etc")
    (vault / "loop").symlink_to(vault)
    if hasattr(os, "mkfifo"):
        os.mkfifo(vault / "pipe.md")
    answer = imported(ann, "obsidian", vault)
    assert (set(contents(ann.kb)), len(answer["skipped"])) == ({"a.md"}, 4 if hasattr(os, "mkfifo") else 3)


def test_a_file_that_claims_two_gigabytes_is_not_read(ann: ImportingPerson) -> None:
    file = packed(ann, ("big.png", b"x" * 100), ("claims.md", b"# x\n"))
    raw = bytearray(file.read_bytes())
    for at in (index for index in range(len(raw)) if raw[index : index + 4] == b"PK\x01\x02"):
        length = struct.unpack_from("<H", raw, at + 28)[0]
        if bytes(raw[at + 46 : at + 46 + length]) in (b"big.png", b"claims.md"):
            struct.pack_into("<I", raw, at + 24, (2 << 30) - 1)
    file.write_bytes(raw)
    answer = imported(ann, "notion", file)
    assert set(contents(ann.kb)) == {"Fine.md"}
    assert all("claims 2,147,483,647 bytes" in one["reason"] for one in answer["skipped"])


def test_a_bomb_is_not_unpacked_whatever_it_claims(ann: ImportingPerson, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_tree, "LARGEST_FILE", 1 << 20)
    monkeypatch.setattr(source_tree, "LARGEST_BYTES", 1 << 20)
    answer = imported(ann, "notion", packed(ann, ("bomb.md", b"0" * (20 << 20)), ("bomb.png", b"0" * (20 << 20))))
    assert (set(contents(ann.kb)), len(answer["skipped"])) == ({"Fine.md"}, 2)


def test_all_that_is_read_of_a_source_has_one_limit(ann: ImportingPerson, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_tree, "MOST_BYTES", 1_000)
    pages = [(f"page {number}.md", os.urandom(100).hex().encode()) for number in range(20)]
    answer = imported(ann, "notion", packed(ann, *pages))
    assert 1 <= len(contents(ann.kb)) <= 6
    assert "were read of the source already" in answer["skipped"][0]["reason"]


def test_archives_in_archives_end(ann: ImportingPerson) -> None:
    inner = b"x"
    for _ in range(6):
        holder = io.BytesIO()
        with zipfile.ZipFile(holder, "w") as writer:
            writer.writestr("inner.zip", inner)
        inner = holder.getvalue()
    answer = imported(ann, "notion", packed(ann, ("nested.zip", inner)))
    assert statuses(answer) == {"Fine.md": "new"}
    assert set(contents(ann.kb)) <= {"Fine.md", "inner.zip"}


def test_a_damaged_archive_is_one_sentence(ann: ImportingPerson) -> None:
    file = packed(ann, (f"other {ID}.md", os.urandom(5_000)))
    raw = file.read_bytes()
    file.write_bytes(raw[:300] + b"damaged" * 20 + raw[440:])
    done = ann.here("import", "notion", str(file), "--yes")
    assert "Traceback" not in done.stderr
    file.write_bytes(raw[:-100])
    done = ann.here("import", "notion", str(file), "--yes")
    assert (done.returncode, "neither a folder nor a zip archive" in done.stderr) == (1, True)


def test_the_knowledge_base_itself_is_no_source(ann: ImportingPerson) -> None:
    (ann.kb / "a.md").write_text("# A\n")
    for place in (ann.kb, ann.folder):
        done = ann.here("import", "obsidian", str(place), "--yes")
        assert (done.returncode, set(contents(ann.kb))) == (1, {"a.md"})
        assert "is in the knowledge base or holds it" in done.stderr
