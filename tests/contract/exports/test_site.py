"""The static site: every link in it leads to a file of it, whatever pages are called and whatever they hold."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from mcp_server.exports.site.search_index import SearchWords, shard_of, words_in
from tests.browser.markdown_payloads import EMBEDDED, MARKDOWN_PAYLOADS
from tests.support.hosts.persons import Person
from tests.support.knowledge_bases.importing_person import contents

ROOT = Path(__file__).parents[3]
LOADS = {"link": "href", "script": "src", "img": "src", "audio": "src", "video": "src", "source": "src"}
HOSTILE_NAMES = {
    "Tea.md": "# Tea\n\n[[tea]] [[con]] ![[cup.png]]\n",
    "tea.md": "# tea\n\n[x](Tea.md)\n",
    "index.md": "# Not the home page\n",
    "search.md": "# Not the search\n",
    "con.md": "# Device\n",
    "tags/index.md": "---\ntags: [index, 'a/b', '../../x', '<script>', Case, case]\n---\n# Not the tags\n",
    "deep/_index.md": "# Deep\n\n[up](../Tea.md#tea)\n",
    "deep/index.md": "# Index\n",
    "a'\"<script>alert(1)<.md": "# A <script>alert(1)</script> title\n",
    "javascript:alert(1).md": "# Scheme\n\n[self](<javascript:alert(1).md>)\n",
    "%2e%2e%2fout.md": "# Encoded\n",
    "name\u202egpj.md": "# Reversed \u202e\n",
    ("long " * 45).strip() + ".md": "# Long\n",
    "f/" * 40 + "deepest.md": "# Deepest\n\n[[Tea]]\n",
}


@dataclass
class Addresses(HTMLParser):
    """What a file of the site names: links, things that are loaded with it, and the ids in it."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    tags: list[str] = field(default_factory=list)
    policy: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.ids |= {found["id"]} if "id" in found else set()
        assert not [name for name in found if name.startswith("on") or name == "style"]
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADS and LOADS[tag] in found:
            self.loads.append(found[LOADS[tag]])
        if found.get("http-equiv") == "content-security-policy":
            self.policy = found["content"]


def read(file: Path) -> Addresses:
    found = Addresses()
    found.feed(file.read_text(encoding="utf-8"))
    found.close()
    return found


def exported(person: Person, *more: str) -> Path:
    out = person.folder / "site"
    done = person.here("export", "site", str(out), *more)
    assert done.returncode == 0, done.stderr
    return out


def assert_closed(site: Path) -> None:
    """Check that all that the files of the site load is in it, and that all relative links lead to files and ids in it."""
    pages = {file: read(file) for file in site.rglob("*.html")}
    assert pages
    for file, found in pages.items():
        assert found.policy.startswith("default-src 'none'; style-src 'self'"), file
        scripts = [tag for tag in found.tags if tag in ("script", "iframe", "object", "embed", "base", "form", "style")]
        assert scripts == (["script", "form"] if file == site / "search.html" else []), file
        for address in found.loads:
            assert urlsplit(address).scheme == "", (file, address)
        for address in (*found.links, *found.loads):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                assert parts.scheme in ("http", "https", "mailto"), (file, address)
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.is_file(), (file, address)
            assert target.is_relative_to(site), (file, address)
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, (file, address)


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    person = Person(tmp_path / "ann")
    person.kb.mkdir(parents=True)
    return person


def write(person: Person, pages: dict[str, str]) -> None:
    for path, text in pages.items():
        (person.kb / path).parent.mkdir(parents=True, exist_ok=True)
        (person.kb / path).write_text(text, encoding="utf-8")


def test_the_handbook_as_a_site_is_closed(ann: Person) -> None:
    site = exported(ann, "--kb", str(ROOT / "kb"), "--title", "Handbook")
    assert_closed(site)
    guide = (site / "pages" / "guides" / "in-and-out.html").read_text(encoding="utf-8")
    assert '<a href="../reference/exports.html"' in guide
    assert "Linked from" in guide
    assert (site / "files" / "reference" / "growth.svg").exists()


def test_a_site_over_an_earlier_one_has_the_same_files(ann: Person) -> None:
    before = contents(exported(ann))
    assert set(contents(exported(ann))) == set(before)


def test_each_page_and_the_whole_site_have_their_links_as_a_picture(ann: Person) -> None:
    many = {f"many/{number}.md": f"# Page {number}\n\n[hub](../hub.md)\n" for number in range(60)}
    write(ann, {**many, "hub.md": "# Hub & spoke\n\n[one](many/1.md) [gone](gone.md)\n", "alone.md": "# Alone\n"})
    site = exported(ann)
    assert_closed(site)
    hub, graph = (site / "pages" / "hub.html").read_text(), (site / "graph.html").read_text()
    assert '<a class="page c0" href="many/1.html"><title>Page 1 (many/1.md), links here and is linked from here' in hub
    assert "Links of Hub &amp; spoke: 60 pages link to it, it links to 1." in hub
    assert "23 more pages are only in the lists." in hub
    assert "<svg" not in (site / "pages" / "alone.html").read_text()
    assert "62 pages, 61 links between them, 1 page without a link" in graph
    assert '<svg class="whole"' in graph
    assert '<a href="pages/hub.html"' in graph
    assert '<a href="pages/alone.html"' in graph


def test_hostile_names_become_safe_ones(ann: Person) -> None:
    write(ann, HOSTILE_NAMES)
    (ann.kb / "cup.png").write_bytes(b"\x89PNG")
    site = exported(ann)
    assert_closed(site)
    names = [file.relative_to(site).as_posix() for file in site.rglob("*") if file.is_file()]
    assert len({name.casefold() for name in names}) == len(names)
    assert all(len(part.encode()) <= 255 for name in names for part in name.split("/"))
    assert not re.search(r'[<>:"|?*\u202e\\]|(^|/)con\.', "\n".join(names))
    assert len([name for name in names if name.startswith("pages/") and "/index" not in name]) >= len(HOSTILE_NAMES) - 3
    assert "<script>alert(1)</script>" not in "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.html"))


def test_hostile_pages_become_closed_files(ann: Person) -> None:
    write(ann, {f"{number}.md": payload for number, payload in enumerate(MARKDOWN_PAYLOADS)})
    write(ann, {f"{name}.md": text for name, text in EMBEDDED.items()})
    site = exported(ann)
    for file in site.rglob("*.html"):
        found = read(file)
        allowed = {"script", "form"} if file.name == "search.html" else set[str]()
        assert {"script", "iframe", "object", "embed", "base", "form", "math", "style"} & {*found.tags} == allowed
        drawings = re.findall(r"<svg[^>]*", file.read_text(encoding="utf-8"))
        assert all(re.match(r'<svg class="(near near-(wide|narrow)|whole)" xmlns=', one) for one in drawings), file
        assert all(urlsplit(address).scheme in ("", "http", "https", "mailto") for address in found.links), file
        assert all(urlsplit(address).scheme == "" and not address.startswith("//") for address in found.loads), file


def test_attachments_that_could_run_something_are_shown_as_text(ann: Person) -> None:
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><circle r="4"/></svg>'
    write(
        ann,
        {
            "a.md": "[page](evil.html) ![good](good.svg) ![bad](bad.svg) [paper](paper.pdf) [odd](odd.exe)\n",
            "evil.html": "<script>alert(1)</script>",
            "good.svg": drawing,
            "bad.svg": drawing.replace("<circle", "<script>alert(1)</script><circle"),
            "paper.pdf": "%PDF",
            "odd.exe": "MZ",
        },
    )
    site = exported(ann)
    assert_closed(site)
    assert {path for path in contents(site) if path.startswith("files/")} == {
        "files/evil.html.txt",
        "files/good.svg",
        "files/bad.svg.txt",
        "files/paper.pdf",
        "files/odd.exe.txt",
    }


def test_links_of_an_embedded_page_lead_where_they_lead_on_that_page(ann: Person) -> None:
    inner = "# Inner\n\n[more](more.md) [[#Part]]\n\n## Part\n"
    write(ann, {"outer.md": "# Outer\n\n![[deep/inner]]\n", "deep/inner.md": inner, "deep/more.md": "# More\n"})
    write(ann, {"more.md": "# Another\n"})
    links = read(exported(ann) / "pages" / "outer.html").links
    assert {"deep/more.html", "deep/inner.html#part"} <= {link.removeprefix("../pages/") for link in links}, links
    assert "more.html" not in links


def test_excluded_pages_are_nowhere_in_the_site(ann: Person) -> None:
    write(
        ann,
        {
            "_index.md": "---\nexclude: [private]\n---\n# Home\n\n[[Secret plan]]\n",
            "private/Secret plan.md": "# Secret plan\n\nxyzzy\n",
        },
    )
    site = exported(ann)
    assert_closed(site)
    assert "xyzzy" not in "".join(file.read_text(encoding="utf-8") for file in site.rglob("*") if file.is_file())


def test_words_of_the_search_are_in_the_shard_of_their_beginning(ann: Person) -> None:
    write(ann, {"a.md": "# Straße\n\nÉcole 茶道 tea\n", "b.md": "# Other\n\ntea tea\n"})
    site = exported(ann)

    def shard(word: str) -> dict[str, list[int]]:
        text = (site / "search" / f"{shard_of(word)}.js").read_text(encoding="utf-8")
        return dict(json.loads(text.partition("]=")[2].rstrip(";\n")))

    for word in ("strasse", "ecole", "茶", "道", "tea"):
        assert word in shard(word), word
    assert words_in("Straße École") == ["strasse", "ecole"]
    weights = dict(zip(shard("tea")["tea"][::2], shard("tea")["tea"][1::2], strict=True))
    assert weights[1] > weights[0]
    words = SearchWords()
    words.add("</script><!--", "a<.html", "\u2028", {"__proto__": 1})
    assert all("<" not in script and script.isascii() for _, script in words.scripts())
