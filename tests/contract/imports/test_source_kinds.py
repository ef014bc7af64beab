"""Sources in their real forms: a vault, a basic-memory project, an export of Notion, folders of HTML and Word documents.

Their forms were taken from public samples: the exports in obsidianmd/obsidian-importer and marph91/jimmy-test-data, and the format
in basicmachines-co/basic-memory.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.support.knowledge_bases.folders import write
from tests.support.knowledge_bases.import_sources import PICTURE, archive
from tests.support.knowledge_bases.importing_person import (
    ImportingPerson,
    contents,
    imported,
    importing_person,
    statuses,
)
from tests.support.knowledge_bases.word_documents import word_document

ROOT_ID, SUB_ID, DATABASE_ID = (
    "41fb48ff63e848c8a9ccc2b4ade99fa2",
    "f05b8540a06441b88c8a6b6026f2230b",
    "19accaea7a6c42b1b569ca637746ba4b",
)
ONE_ID, TWO_ID = "1938b3a6942442e4a95f993885c02a3b", "dfc61c3e91d4494ea7cb05d0dafb1bd2"
NOTION = {
    f"Root {ROOT_ID}.md": (
        f"# Root\n\n[Sub page](Root%20{ROOT_ID}/Sub%20page%20{SUB_ID}.md)\n\n![Picture](Root%20{ROOT_ID}/Picture.png)\n\n"
        f"[Full DB](Root%20{ROOT_ID}/Full%20DB%20{DATABASE_ID}.csv)\n\n"
        f"[by web](https://www.notion.so/Sub-page-{SUB_ID}?pvs=21) [away](https://www.notion.so/Away-{'0' * 32})"
    ),
    f"Root {ROOT_ID}/Sub page {SUB_ID}.md": f"# Sub page\n\nBack to [Root](../Root%20{ROOT_ID}.md)",
    f"Root {ROOT_ID}/Picture.png": PICTURE,
    f"Root {ROOT_ID}/Full DB {DATABASE_ID}.csv": "\ufeffName,Tags\nOne,a\n",
    f"Root {ROOT_ID}/Full DB {DATABASE_ID}_all.csv": '\ufeffName,Tags\nOne,"a, b"\nTwo | two,\nOnly a row,"line\nend"\n',
    f"Root {ROOT_ID}/Full DB {DATABASE_ID}/One {ONE_ID}.md": "# One\n\nTags: a, b\n",
    f"Root {ROOT_ID}/Full DB {DATABASE_ID}/Two two {TWO_ID}.md": "# Two | two\n",
    "index.html": "<title>index</title>",
}


@pytest.fixture
def ann(tmp_path: Path) -> ImportingPerson:
    return importing_person(tmp_path / "ann")


def page(ann: ImportingPerson, path: str) -> str:
    return (ann.kb / path).read_text(encoding="utf-8")


def test_an_export_of_notion_loses_its_ids_and_keeps_its_links(ann: ImportingPerson) -> None:
    inner = archive(NOTION, above="Export-badce82a-60e8-402e-a32d-b0d89dc601cb/")
    file = ann.folder / "7acd77c1_Export.zip"
    file.write_bytes(archive({"Export-badce82a-60e8-402e-a32d-b0d89dc601cb-Part-1.zip": inner}))
    answer = imported(ann, "notion", file, "--into", "n")
    assert set(statuses(answer)) == {
        "n/Root.md",
        "n/Root/Sub page.md",
        "n/Root/Full DB.md",
        "n/Root/Full DB/One.md",
        "n/Root/Full DB/Two two.md",
    }
    assert page(ann, "n/Root.md") == (
        f'---\nsource: "notion:{ROOT_ID}"\n---\n\n# Root\n\n[Sub page](Root/Sub%20page.md)\n\n![Picture](Root/Picture.png)\n\n'
        f"[Full DB](Root/Full%20DB.md)\n\n[by web](</n/Root/Sub page.md>) [away](https://www.notion.so/Away-{'0' * 32})\n"
    )
    assert page(ann, "n/Root/Sub page.md").endswith("Back to [Root](../Root.md)\n")
    assert page(ann, "n/Root/Full DB.md") == (
        f'---\nsource: "notion:{DATABASE_ID}"\n---\n\n# Full DB\n\n| Name | Tags |\n| --- | --- |\n'
        "| [One](<Full DB/One.md>) | a, b |\n| [Two \\| two](<Full DB/Two two.md>) |  |\n| Only a row | line<br>end |\n"
    )
    assert (ann.kb / "n/Root/Picture.png").read_bytes() == PICTURE
    assert answer["links_lost"] == [{"path": "n/Root.md", "target": f"https://www.notion.so/Away-{'0' * 32}"}]


def test_a_later_export_of_notion_updates_its_pages_also_renamed_ones(ann: ImportingPerson) -> None:
    first, second = ann.folder / "first.zip", ann.folder / "second.zip"
    first.write_bytes(archive(NOTION))
    imported(ann, "notion", first)
    renamed = {name.replace("Sub page", "New name"): text for name, text in NOTION.items()}
    second.write_bytes(archive({**renamed, f"Root {ROOT_ID}/New name {SUB_ID}.md": "# New name\n\nMore text\n"}))
    answer = imported(ann, "notion", second)
    by_status = {path: status for path, status in statuses(answer).items() if status != "same"}
    assert by_status == {"Root.md": "changed", "Root/Sub page.md": "changed"}
    assert "More text" in page(ann, "Root/Sub page.md")


def test_an_html_export_of_notion_says_what_to_do(ann: ImportingPerson) -> None:
    file = ann.folder / "export.zip"
    file.write_bytes(archive({f"Testing {ROOT_ID}.html": "<h1>Testing</h1>"}))
    done = ann.here("import", "notion", str(file), "--yes")
    assert done.returncode == 1
    assert "export it as Markdown & CSV" in done.stderr


def test_a_vault_stays_as_it_is_without_what_obsidian_keeps_for_itself(ann: ImportingPerson) -> None:
    vault = write(
        ann.folder / "Vault",
        {
            "Home.md": "---\naliases: [Start]\n---\nSee [[Tea]], [[Deep/Note|the note]], ![[cup.png]] and [[Unwritten]].\n",
            "Drinks/Tea.md": "# Tea\r\n\r\n[[Start#Part^block]] %%hidden%%\r\n",
            "Deep/Note.md": "[tea](../Drinks/Tea.md)",
            "aux.md": "# Odd\n",
            "Uses odd.md": "[[aux]]\n",
            ".obsidian/app.json": "{}",
            ".trash/Old.md": "# Old\n",
            "board.canvas": "{}",
        },
    )
    (vault / "Drinks" / "cup.png").write_bytes(PICTURE)
    (vault / "latin.md").write_bytes(b"caf\xe9\n")
    answer = imported(ann, "obsidian", vault)
    there = {path: raw for path, raw in contents(vault).items() if not path.startswith(("aux", "_aux", "Uses"))}
    here = {path: raw for path, raw in contents(ann.kb).items() if not path.startswith(("aux", "_aux", "Uses"))}
    assert here == there
    assert {one["name"]: one["reason"] for one in answer["skipped"]} == {
        ".obsidian": "a hidden folder",
        ".trash": "a hidden folder",
    }
    assert page(ann, "Uses odd.md") == "[[_aux]]\n"
    assert {one["target"] for one in answer["links_lost"]} == {"Unwritten"}
    again = imported(ann, "obsidian", vault, "--into", "copy")
    assert page(ann, "copy/Home.md").endswith(
        "See [[copy/Drinks/Tea]], [[copy/Deep/Note|the note]], ![[copy/Drinks/cup.png]] and [[Unwritten]].\n"
    )
    assert set(statuses(again).values()) == {"new"}


@pytest.mark.parametrize("is_vault", [False, True])
def test_markdown_links_by_name_become_paths_except_in_a_vault(ann: ImportingPerson, is_vault: bool) -> None:  # noqa: FBT001 - a case
    """Only Obsidian finds `![](cup 1.png)` in another folder."""
    text = "![cup](cup%201.png) [tea](Tea.md#part) [home](../Home.md) [none](gone.md)\n"
    vault = write(ann.folder / "Vault", {"deep/Note.md": text, "Drinks/Tea.md": "# Tea\n", "Home.md": "# Home\n"})
    (vault / "pictures").mkdir()
    (vault / "pictures" / "cup 1.png").write_bytes(PICTURE)
    if is_vault:
        (ann.kb / ".obsidian").mkdir()
    answer = imported(ann, "obsidian", vault)
    here = "![cup](../pictures/cup%201.png) [tea](../Drinks/Tea.md#part) [home](../Home.md) [none](gone.md)\n"
    assert page(ann, "deep/Note.md") == (text if is_vault else here)
    assert [one["target"] for one in answer["links_lost"]] == ["gone.md"]
    assert set(statuses(imported(ann, "obsidian", vault)).values()) == {"same"}


def test_a_project_of_basic_memory_keeps_observations_and_follows_permalinks(ann: ImportingPerson) -> None:
    note = (
        "---\ntitle: Coffee Brewing\ntype: note\ntags: [coffee]\npermalink: project/coffee-brewing\n---\n\n# Coffee Brewing\n\n"
        "- [method] Pour over is clearer #brewing (tasted)\n- relates_to [[Coffee Bean Origins]]\n- requires [[project/grinding]]\n"
        "- see [grinding](memory://project/grinding) and memory://project/nothing\n"
    )
    project = write(
        ann.folder / "main",
        {
            "notes/Coffee Brewing.md": note,
            "notes/Grind.md": "---\ntitle: Proper Grinding\npermalink: project/grinding\n---\n# Proper Grinding\n",
            "Coffee Bean Origins.md": "# Coffee Bean Origins\n",
        },
    )
    answer = imported(ann, "basic-memory", project)
    assert set(statuses(answer).values()) == {"new"}
    assert page(ann, "notes/Coffee Brewing.md") == note.replace("[[project/grinding]]", "[[notes/Grind]]").replace(
        "(memory://project/grinding)", "(</notes/Grind.md>)"
    )


def test_html_pages_become_markdown_with_their_pictures_and_without_their_scripts(ann: ImportingPerson) -> None:
    pytest.importorskip("markdownify")
    inline = base64.b64encode(PICTURE).decode()
    folder = write(
        ann.folder / "site",
        {
            "index.html": (
                "<html><head><title>The <b>site</b></title><style>p{}</style></head><body onload='x()'>"
                "<script>alert(1)</script><p>See <a href='sub/other.html#part'>other</a>, <a href='javascript:alert(1)'>bad</a>.</p>"
                f"<img src='data:image/png;base64,{inline}' onerror='x()'><img src='data:text/html,x'><img src='cup.png' alt='cup'>"
                "<p>&lt;script&gt;alert(2)&lt;/script&gt; [x](javascript:alert(3))</p>"
                "<table><tr><th>a</th><th>b</th></tr><tr><td>1|2</td><td>3</td></tr></table><iframe src='https://evil.example'></iframe>"
            ),
            "sub/other.html": "<meta charset=latin-1><h1>Other</h1><pre><code>x  &lt;y&gt;</code></pre>",
            "site.js": "alert(1)",
        },
    )
    (folder / "cup.png").write_bytes(PICTURE)
    (folder / "deep.html").write_text("<div>" * 20_000 + "deep")
    answer = imported(ann, "html", folder)
    text = page(ann, "index.md")
    assert text.startswith('---\nsource: "html:site/index.html"\n---\n\n# The site\n')
    assert "[other](sub/other.md#part), bad." in text
    assert "![cup](cup.png)" in text
    assert "| 1\\|2 | 3 |" in text
    assert r"\<script\>alert(2)\</script\> \[x\](javascript:alert(3))" in text
    for never in ("alert(1)", "onload", "onerror", "iframe", "evil.example", "data:", "p{}"):
        assert never not in text
    assert "```\nx  <y>\n```" in page(ann, "sub/other.md")
    pictures = [path for path, raw in contents(ann.kb).items() if raw == PICTURE]
    assert len(pictures) == 2
    assert "site.js" not in contents(ann.kb)
    assert [one["name"] for one in answer["skipped"] if "deep" in one["reason"]] in ([], ["deep.html"])


def test_word_documents_become_markdown_and_attacks_in_them_are_refused(ann: ImportingPerson) -> None:
    pytest.importorskip("mammoth")
    folder = ann.folder / "papers"
    folder.mkdir()
    (folder / "Plan.docx").write_bytes(word_document("The plan", "One <script> & more", picture=PICTURE))
    entity = '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    file = '<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    for name, prologue in (("laughs", entity), ("xxe", file)):
        (folder / f"{name}.docx").write_bytes(word_document("x", "y", prologue=prologue))
    (folder / "deep.docx").write_bytes(word_document("x", "y", nested=5_000))
    (folder / "bomb.docx").write_bytes(word_document("x", "y", more={"word/big.xml": b"0" * (200 << 20)}))
    (folder / "none.docx").write_bytes(b"PK not a document")
    (folder / "linked.docx").write_bytes(word_document("x", "y", linked="file:///etc/passwd"))
    answer = imported(ann, "docx", folder)
    assert set(statuses(answer)) == {"Plan.md", "linked.md"}
    text = page(ann, "Plan.md")
    assert "# The plan" in text
    assert r"One \<script\> \& more" in text
    assert [raw for path, raw in contents(ann.kb).items() if path.endswith(".png")] == [PICTURE]
    assert "root:" not in page(ann, "linked.md")
    reasons = {one["name"]: one["reason"] for one in answer["skipped"]}
    assert {name: words in reasons[name] for name, words in WHY.items()} == dict.fromkeys(WHY, True), reasons


WHY = {
    "laughs.docx": "document type",
    "xxe.docx": "document type",
    "deep.docx": "nested too deep",
    "bomb.docx": "unpacks to more than 128 MiB",
    "none.docx": "not a Word document",
}
