"""Exports come back: the same pages, links and origins of claims in an empty knowledge base, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.importing_person import contents, imported, importing_person, statuses

ROOT = Path(__file__).parents[3]
NAMES = (
    st.text("aZ0-_ éü漢", min_size=1, max_size=12).map(str.strip).filter(lambda name: name[:1] not in ("", ".", "-"))
)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from(["# A", "text [[b]] [x](c.md)", "- item", "", "| a |", "---", "\r", "\ufeff"])).map(
        lambda parts: "\n".join(parts).encode()
    ),
)


def exported_lines(person: Person, name: str) -> dict[str, dict[str, object]]:
    """Return the pages of an export without what differs in every export."""
    file = person.folder / name
    assert person.here("export", "jsonl", str(file)).returncode == 0
    pages = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[1:-1]]
    return {page["path"]: page for page in pages}


@pytest.mark.parametrize("kind", ["folder", "jsonl"])
def test_pages_links_and_origins_of_claims_come_back(tmp_path: Path, kind: str) -> None:
    ann = importing_person(
        tmp_path / "ann", {"a.md": "# A\n\nSee [[b]].\n", "deep/b.md": "# B\n\nBack to [a](../a.md).\n"}
    )
    page = ann.folder / "text.md"
    page.write_text("# Limits\n\nThe limit is 40 requests.\n")
    assert ann.here("new", "limits.md", "--from", str(page)).returncode == 0
    out = ann.folder / "out"
    assert ann.here("export", kind, str(out)).returncode == 0

    bob = importing_person(tmp_path / "bob")
    answer = imported(bob, kind, out)
    assert set(statuses(answer).values()) == {"new"}
    assert contents(bob.kb) == contents(ann.kb)
    there, here = exported_lines(bob, "again.jsonl"), exported_lines(ann, "first.jsonl")
    # Claims whose origin was unknown now come from the export; those that were known keep it.
    assert there["limits.md"] == here["limits.md"]
    assert here["limits.md"]["claims"] != []
    assert {path: page["links"] for path, page in there.items()} == {path: page["links"] for path, page in here.items()}
    assert set(statuses(imported(bob, kind, out)).values()) == {"same"}


@settings(max_examples=8)
@given(pages=st.dictionaries(NAMES, BODIES, min_size=2, max_size=12))
def test_any_pages_come_back_byte_for_byte(tmp_path_factory: pytest.TempPathFactory, pages: dict[str, bytes]) -> None:
    """The base is opened once: names that differ only in case are one file on some systems."""
    folder = tmp_path_factory.mktemp("random")
    ann, bob = Person(folder / "ann"), importing_person(folder / "bob")
    ann.kb.mkdir(parents=True)
    for name, raw in {name.casefold(): raw for name, raw in pages.items()}.items():
        (ann.kb / f"{name}.md").write_bytes(raw)
    assert ann.here("export", "jsonl", str(folder / "out.jsonl")).returncode == 0
    imported(bob, "jsonl", folder / "out.jsonl")
    assert contents(bob.kb) == contents(ann.kb)


def test_the_handbook_comes_back(tmp_path: Path) -> None:
    ann = importing_person(tmp_path / "ann")
    reader = Person(tmp_path / "reader")
    reader.folder.mkdir()
    out = tmp_path / "handbook"
    assert reader.here("export", "folder", str(out), "--kb", str(ROOT / "kb")).returncode == 0
    answer = imported(ann, "folder", out)
    left = {page["path"] for page in answer["pages"] if page["status"] != "new"}
    left |= {file["path"] for file in answer["attachments"] if file["status"] != "new"}
    assert all(path.startswith(("_agents/", "_skills/")) for path in left), left
    assert contents(ann.kb) == {path: raw for path, raw in contents(ROOT / "kb").items() if path not in left}


def test_an_undone_import_is_gone_and_can_be_imported_again(tmp_path: Path) -> None:
    ann = importing_person(tmp_path / "ann", {"a.md": "# A\n", "b.md": "# B\n"})
    assert ann.here("export", "folder", str(ann.folder / "out")).returncode == 0
    bob = importing_person(tmp_path / "bob", {"own.md": "# Own\n"})
    first = imported(bob, "folder", ann.folder / "out")
    with bob.at("undo", "--import", first["import"], "--yes") as terminal:
        terminal.until("2 changes undone")
        assert terminal.left() == 0
    assert set(contents(bob.kb)) == {"own.md"}
    assert bob.here("undo", "--import", first["import"]).returncode == 1
    assert set(statuses(imported(bob, "folder", ann.folder / "out")).values()) == {"new"}
    assert set(contents(bob.kb)) == {"own.md", "a.md", "b.md"}
