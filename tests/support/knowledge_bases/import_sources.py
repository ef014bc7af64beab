"""A small source of each kind that can be imported, with the pages and attachments that come of it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.folders import write
from tests.support.knowledge_bases.word_documents import word_document

PICTURE = b"\x89PNG\r\n\x1a\n picture"
_NOTE_ID, _ROOT_ID = "f05b8540a06441b88c8a6b6026f2230b", "41fb48ff63e848c8a9ccc2b4ade99fa2"
_OWN = {"Home.md": "# Home\n\nSee [tea](drinks/tea.md).\n", "drinks/tea.md": "# Tea\r\n\r\n[[Home]]\r\n"}


@dataclass(frozen=True)
class ImportSource:
    """A source, and the files that its import adds."""

    kind: str
    place: Path
    pages: AbstractSet[str]
    attachments: AbstractSet[str] = frozenset()

    @property
    def files(self) -> AbstractSet[str]:
        """Everything that the import adds."""
        return self.pages | self.attachments

    @property
    def counts(self) -> str:
        """The beginning of the subject of the import's commit."""
        attachments = len(self.attachments)
        more = f" and {attachments} attachment{'s' * (attachments > 1)}" if attachments else ""
        return f"Import {len(self.pages)} pages{more}"


def _exported(kind: str, folder: Path) -> Path:
    author = Person(folder / "author")
    author.kb.mkdir(parents=True)
    write(author.kb, _OWN)
    (author.kb / "drinks" / "cup.png").write_bytes(PICTURE)
    place = folder / ("pages.jsonl" if kind == "jsonl" else "export")
    done = author.here("export", kind, str(place))
    assert done.returncode == 0, done.stderr
    return place


def _folder(folder: Path) -> ImportSource:
    return ImportSource("folder", _exported("folder", folder), _OWN.keys(), {"drinks/cup.png"})


def _jsonl(folder: Path) -> ImportSource:
    return ImportSource("jsonl", _exported("jsonl", folder), _OWN.keys())


def _obsidian(folder: Path) -> ImportSource:
    vault = write(folder / "vault", {**_OWN, ".obsidian/app.json": "{}"})
    (vault / "cup.png").write_bytes(PICTURE)
    return ImportSource("obsidian", vault, _OWN.keys(), {"cup.png"})


def _basic_memory(folder: Path) -> ImportSource:
    note = "---\ntitle: Coffee\npermalink: coffee\n---\n\n# Coffee\n\n- [method] Pour over\n- relates_to [[Beans]]\n"
    project = write(folder / "project", {"notes/Coffee.md": note, "Beans.md": "# Beans\n"})
    return ImportSource("basic-memory", project, {"notes/Coffee.md", "Beans.md"})


def _notion(folder: Path) -> ImportSource:
    files: dict[str, object] = {
        f"Root {_ROOT_ID}.md": f"# Root\n\n[Note](Root%20{_ROOT_ID}/Note%20{_NOTE_ID}.md)\n",
        f"Root {_ROOT_ID}/Note {_NOTE_ID}.md": "# Note\n\n![Cup](cup.png)\n",
        f"Root {_ROOT_ID}/cup.png": PICTURE,
    }
    folder.mkdir(parents=True)
    place = folder / "notion.zip"
    place.write_bytes(archive(files))
    return ImportSource("notion", place, {"Root.md", "Root/Note.md"}, {"Root/cup.png"})


def _html(folder: Path) -> ImportSource:
    inline = base64.b64encode(PICTURE).decode()
    pages = {
        "index.html": "<title>Site</title><p>See <a href='sub/other.html'>other</a>.</p><img src='cup.png' alt='cup'>",
        "sub/other.html": f"<h1>Other</h1><img src='data:image/png;base64,{inline}'>",
    }
    site = write(folder / "site", pages)
    (site / "cup.png").write_bytes(PICTURE)
    attachments = {"cup.png", f"sub/{hashlib.sha256(PICTURE).hexdigest()[:12]}.png"}
    return ImportSource("html", site, {"index.md", "sub/other.md"}, attachments)


def _docx(folder: Path) -> ImportSource:
    papers = folder / "papers"
    papers.mkdir(parents=True)
    (papers / "Plan.docx").write_bytes(word_document("The plan", "We ship on Friday."))
    (papers / "Team.docx").write_bytes(word_document("The team", "Ann and Bob."))
    return ImportSource("docx", papers, {"Plan.md", "Team.md"})


def _memory(folder: Path) -> ImportSource:
    place = folder / "memory.jsonl"
    folder.mkdir(parents=True)
    place.write_text(memory_lines(3))
    return ImportSource("memory-jsonl", place, {f"Person {number}.md" for number in range(3)})


SOURCES: Mapping[str, Callable[[Path], ImportSource]] = {
    "folder": _folder,
    "jsonl": _jsonl,
    "obsidian": _obsidian,
    "basic-memory": _basic_memory,
    "notion": _notion,
    "html": _html,
    "docx": _docx,
    "memory-jsonl": _memory,
}
"""For each kind, a function that makes a source in a folder of its own."""


def memory_lines(count: int, fact: str = "is number") -> str:
    """Return the file of the official memory server with so many entities, `Person 0` and so on."""
    entities = (
        {"type": "entity", "name": f"Person {number}", "entityType": "p", "observations": [f"{fact} {number}"]}
        for number in range(count)
    )
    return "".join(json.dumps(one) + "\n" for one in entities)


def archive(files: Mapping[str, object], *, above: str = "") -> bytes:
    """Return a ZIP archive with these files below the folder `above`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as writer:
        for name, content in files.items():
            writer.writestr(f"{above}{name}", content if isinstance(content, bytes) else str(content))
    return packed.getvalue()
