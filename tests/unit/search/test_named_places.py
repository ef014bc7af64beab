"""A question leads to a page or folder that it names only if it says nothing else; any other question is judged by its hits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from knowledge.errors import NoSuchPath
from knowledge.state.ports import Filters
from tests.support.knowledge_bases.folders import write
from tests.unit.search.test_finder import Base

MANUAL = {
    "ui/browser.md": "# Browser\n\nThe browser shows what a project holds.\n\n## Sorting\n\nClick a column to sort the rows.\n",
    "ui/list-page.md": "# List page\n\nThe list page shows posts, newest first. Each post has a short summary.\n",
    "ui/settings.md": "# Settings\n\nSettings change how the program looks and behaves.\n",
    "ui/editor.md": "# Editor\n\nThe editor changes text. Lines have numbers.\n",
    "ui/files.md": "# Files\n\nFiles are kept in folders. Hidden files begin with a dot. A zip file is opened like a folder.\n",
    "ui/container.md": "# Container\n\nA container runs an image. An image has layers and a manifest.\n",
    "ui/index.md": "# Index\n\nThe index speeds up search. It is built in the background.\n",
    "ui/tags.md": "# Tags\n\nA tag groups pages. Add a tag in the front matter.\n",
    "guides/_index.md": "---\ntitle: Guides\nsummary: How we do things.\n---\n",
    "guides/deploy.md": "# Deploying the payment service\n\nThe payment service is deployed with a canary first.\n",
    "tasks/debug/pods.md": "# Debug pods\n\nLook at the pods with describe.\n",
    "docs/topics/charts.md": "# Charts\n\nA chart is a bundle of templates.\n",
    "runbooks/zx81/start.md": "# Start the machine\n\nPress the key.\n",
    "runbooks/nothing-yet.md": "",
    "problems/errors/timeouts.md": "# Timeouts\n\nA request that takes too long fails with errors.\n",
    "gross-rates.md": "# GrossRates\n\nWhat is paid before tax.\n",
    "zooko.md": "---\ntitle: Zooko's Triangle\n---\n\nA name is secure, short or global.\n",
    "nyaya.md": "---\ntitle: Nyāya\n---\n\nA school of logic.\n",
    "patterns.md": "---\ntitle: A Pattern Language\n---\n\nTowns and buildings.\n",
    "co2.md": "---\ntitle: Prüfung CO₂-Werte\n---\n\nDie Werte werden jeden Tag geprüft.\n",
    "runbooks/restart.md": "# Restart the broker\n\nDrain the broker, then restart it.\n",
}
BY_NAME = ("a page has this name", "a page or section has this name", "the question asks what is in")


def indexed(folder: Path, pages: dict[str, str]) -> Base:
    made = Base(write(folder, pages))
    asyncio.run(made.index_all())
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return indexed(tmp_path_factory.mktemp("manual"), MANUAL)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("what's in tasks/debug", "tasks/debug"),
        ("whats in tasks/debug", "tasks/debug"),
        ("whats in guides", "guides"),
        ("what does docs/topics contain", "docs/topics"),
        ("guides 里有什么", "guides"),
        ("What does the guides folder contain?", "guides"),
        ("zx81", "runbooks/zx81"),
        ("tasks", "tasks"),
        ("the errors folder", "problems/errors"),
        ("show me the errors folder", "problems/errors"),
        ("what's in the errors folder", "problems/errors"),
        ("zx81/start.md", "runbooks/zx81/start.md"),
        ("open topics/charts.md", "docs/topics/charts.md"),
        ("topics/charts.mdx", "docs/topics/charts.md"),
        ("LIST-PAGE", "ui/list-page.md"),
        ("list_page", "ui/list-page.md"),
        ("listPage", "ui/list-page.md"),
        ("Gross rates", "gross-rates.md"),
        ("Pruefung CO2-Werte", "co2.md"),
        ("zooko\u2019s triangle", "zooko.md"),
        ("zookos triangle", "zooko.md"),
        ("Nyaya", "nyaya.md"),
        ("pattern language", "patterns.md"),
        ("[[Nyāya]]", "nyaya.md"),
        ("runbooks/zx81/", "runbooks/zx81"),
        ("list the pages of runbooks", "runbooks"),
        ("Browser", "ui/browser.md"),
        ("List page", "ui/list-page.md"),
        ("settings", "ui/settings.md"),
        ("Index", "ui/index.md"),
        ("Files", "ui/files.md"),
        ("show the page Browser", "ui/browser.md"),
        ("open the settings page", "ui/settings.md"),
        ("where is the settings page", "ui/settings.md"),
        ("where is the page Settings located?", "ui/settings.md"),
        ("open the List page page", "ui/list-page.md"),
        ("show me the page called List page", "ui/list-page.md"),
        ("open ui/browser.md", "ui/browser.md"),
        ("show ui/editor", "ui/editor.md"),
        ("ui/tags.md", "ui/tags.md"),
        ("editor.md", "ui/editor.md"),
        ("open editor.md", "ui/editor.md"),
        ("show me the guides", "guides"),
        ("list guides", "guides"),
        ("list all pages in the guides folder", "guides"),
        ("which pages are in runbooks?", "runbooks"),
        ("show me a list of all the pages in the folder runbooks", "runbooks"),
        ("what is in the folder docs/topics?", "docs/topics"),
        ("contents of guides", "guides"),
        ("table of contents of runbooks", "runbooks"),
        ("overview of runbooks", "runbooks"),
        ("what documents are there under tasks/debug", "tasks/debug"),
        ("can you show me the runbooks folder", "runbooks"),
        ("list all pages", ""),
        ("what is in debug", "tasks/debug"),
        ('open the page "Browser"', "ui/browser.md"),
        ("the Editor page", "ui/editor.md"),
        ("was enthält guides", "guides"),
        ("was ist im Ordner runbooks", "runbooks"),
        ("zeige die Seite Browser", "ui/browser.md"),
        ("öffne die Seite Editor", "ui/editor.md"),
        ("wo ist die Seite Settings?", "ui/settings.md"),
        ("welche Seiten gibt es in runbooks?", "runbooks"),
        ("was liegt unter tasks/debug", "tasks/debug"),
        ("zeig mir alle Seiten im Ordner guides", "guides"),
        ("Inhalt von guides", "guides"),
        ("que contient guides", "guides"),
        ("qu'y a-t-il dans guides", "guides"),
        ("ouvre la page Browser", "ui/browser.md"),
        ("où est la page Settings ?", "ui/settings.md"),
        ("liste les pages du dossier runbooks", "runbooks"),
        ("quelles pages y a-t-il dans runbooks ?", "runbooks"),
        ("qué hay en guides", "guides"),
        ("qué contiene la carpeta runbooks", "runbooks"),
        ("abre la página Browser", "ui/browser.md"),
        ("abre la página Editor", "ui/editor.md"),
        ("¿dónde está la página Settings?", "ui/settings.md"),
        ("lista las páginas de la carpeta guides", "guides"),
        ("muéstrame la página Editor", "ui/editor.md"),
        ("o que há na pasta guides", "guides"),
        ("cosa c'è nella cartella guides", "guides"),
        ("wat staat er in de map guides", "guides"),
        ("apri la pagina Browser", "ui/browser.md"),
        ("abra a página Browser", "ui/browser.md"),
        ("open de pagina Browser", "ui/browser.md"),
        ("guidesには何がありますか", "guides"),
        ("guidesフォルダの中身", "guides"),
        ("Browserページを開いて", "ui/browser.md"),
        ("Settings ページはどこですか", "ui/settings.md"),
        ("guides フォルダのページ一覧", "guides"),
        ("guides 文件夹里有哪些页面", "guides"),
        ("打开 Browser 页面", "ui/browser.md"),
        ("列出 runbooks 目录的内容", "runbooks"),
        ("Settings 页面在哪里", "ui/settings.md"),
        ("tasks/debug 里有什么", "tasks/debug"),
        ("что в папке guides", "guides"),
        ("открой страницу Browser", "ui/browser.md"),
        ("покажи папку runbooks", "runbooks"),
        ("где находится страница Settings", "ui/settings.md"),
        ("co jest w guides", "guides"),
        ("pokaż stronę Browser", "ui/browser.md"),
        ("guides 폴더에 무엇이 있나요", "guides"),
        ("go to the settings page", "ui/settings.md"),
        ("could you open the Browser page", "ui/browser.md"),
        ("navigate to runbooks", "runbooks"),
        ("is there a runbooks folder?", "runbooks"),
        ("what's inside guides?", "guides"),
        ("what do the guides contain", "guides"),
        ("show everything in guides", "guides"),
        ("which guides do we have", "guides"),
        ("Was steht auf der Seite Editor?", "ui/editor.md"),
        ("guides anzeigen", "guides"),
        ("quel est le contenu du dossier guides ?", "guides"),
        ("¿dónde se encuentra la carpeta runbooks?", "runbooks"),
        ("dov'è la pagina Settings?", "ui/settings.md"),
        ("onde está a página Settings?", "ui/settings.md"),
        ("welke pagina's staan er in runbooks?", "runbooks"),
        ("guidesに何がある?", "guides"),
        ("runbooksフォルダにあるページの一覧", "runbooks"),
        ("查看 Editor 页面", "ui/editor.md"),
        ("runbooks 文件夹在哪里", "runbooks"),
        ("список страниц в папке runbooks", "runbooks"),
        ("gdzie jest strona Settings?", "ui/settings.md"),
        ("vad finns i guides", "guides"),
    ],
)
async def test_a_question_that_says_only_a_name_leads_to_the_place(base: Base, query: str, path: str) -> None:
    answer = await base.finder.search(query)
    assert answer.route.mode == "navigation"
    if path.endswith(".md"):
        assert (answer.scent.level, answer.hits[0].path) == ("sufficient", path)
        assert answer.scent.next.startswith(f"kb_read({path!r}")
    else:
        assert answer.scent.next == f"kb_map({path!r})"
        assert answer.pages[0].path == path or not path


@pytest.mark.parametrize(
    "query",
    [
        "list files of a folder in the browser",
        "summary of a post on the list page",
        "how do I list files of a folder",
        "where is the settings page described",
        "open a file in the editor",
        "show hidden files",
        "list pages with a tag",
        "contents of a zip file",
        "index of a list",
        "what is in a container image",
        "open a link in the browser",
        "list of files in a container",
        "show a page in the browser",
        "view the page in the browser",
        "open files from the list page",
        "list tags of a page",
        "show tags in the editor",
        "where are the settings of the editor",
        "where are the files of a container",
        "which files are in the container",
        "open a folder in the editor",
        "show the index of a list page",
        "display a list in the editor",
        "show line numbers in the editor",
        "where is the index stored",
        "list all tags in the index",
        "show the files of a page in the browser",
        "what is in the index of a container",
        "list pages without tags",
        "pages that link to the settings page",
        "list guides for the editor",
        "open settings from the browser",
        "where does the browser store files",
        "where are files of the editor saved",
        "remove a page from the index",
        "list the tasks of the browser",
        "show the menu of the editor",
        "browse files on the list page",
        "files and folders",
        "open two files in the editor",
        "show the settings of a container",
        "what is the editor for",
        "table of contents of a page in the browser",
        "a list of links on the list page",
        "list the documents that are not in the index",
        "open the browser in a container",
        "what tags are in the editor settings",
        "show documentation in the editor",
        "which page opens the browser",
        "where is the list of tags in settings",
        "where do I find the template of the list page",
        "open guides about rollback",
        "where are the retry timeouts of guides kept",
        "which runbooks or guides are there",
        "list the guides for new colleagues",
        "where in guides/deploy.md is the canary",
        "what does ui/editor.md say about undo",
        "is there a page on undo in the editor",
        "liste Dateien eines Ordners im Browser",
        "eine Datei im Editor öffnen",
        "versteckte Dateien anzeigen",
        "Seiten mit einem Tag auflisten",
        "Inhalt eines Containers anzeigen",
        "öffne einen Link im Browser",
        "welche guides oder decisions gibt es",
        "zeige die Dateien eines Ordners im Container",
        "wo ist die Seite Settings beschrieben",
        "liste les fichiers d'un dossier dans le browser",
        "ouvrir un fichier dans le container",
        "afficher les tags d'une page",
        "où sont les fichiers du container",
        "abrir un archivo en el editor",
        "listar archivos de una carpeta en el browser",
        "mostrar los tags de una página",
        "muestra los archivos del container",
        "abrir um arquivo no editor",
        "apri un file nel browser",
        "open een bestand in de editor",
        "elenca i file del container",
        "editorでファイルを開く",
        "browserでフォルダのファイルを一覧表示する",
        "guidesのページを削除するには",
        "containerの中のファイルを表示",
        "在 editor 中打开文件",
        "在 browser 里列出文件夹的文件",
        "guides 里的页面怎么删除",
        "显示 container 里的隐藏文件",
        "打开 browser 里的链接",
        "runbooks 里的文件不显示",
        "открыть файл в editor",
        "список файлов папки в browser",
        "показать скрытые файлы в browser",
        "где хранятся файлы container",
        "otwórz plik w editor",
        "pokaż pliki folderu w browser",
        "what can I do in the editor",
        "what do I see in the browser",
        "where can I change settings",
        "what should be in the index",
        "open settings in a new tab",
        "which settings does the editor have",
        "tags in front matter",
        "what does the index do",
        "what is the index",
        "list containers in a folder",
        "list all tags",
        "show all settings",
        "add a page to guides",
        "pages about the editor",
        "what to do in the editor",
        "what do we do in the editor",
        "open page in the browser",
        "show the page title in the browser",
        "where does guides/deploy.md mention the canary",
        "what is new in guides",
        "how many pages are in guides",
        "Seite im Browser öffnen",
        "Ordner im Editor öffnen",
        "ouvrir la page dans le browser",
        "ajouter une page à guides",
        "crear una página en guides",
        "editorでページを編集する",
        "guidesにページを追加",
        "index 是什么",
        "guides 里有多少页面",
        "打开 editor 里的文件夹",
        "открыть страницу в browser",
        "добавить страницу в guides",
        "dodaj stronę do guides",
        "lägg till en sida i guides",
    ],
)
async def test_a_question_that_says_more_than_a_name_is_judged_by_its_hits(base: Base, query: str) -> None:
    """`list files of a folder in the browser` was called `sufficient`, because a page is named Browser."""
    scent = (await base.finder.search(query)).scent
    assert not scent.reason.startswith(BY_NAME), scent


def test_a_question_that_is_a_name_shows_the_page_and_the_folder_of_that_name_and_no_other_places(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    pages = {
        "settings.md": "# Settings\n\nHow the program behaves.\n",
        "settings/colours.md": "# Colours\n\nWhich colours it has.\n",
        "front-matter/keys.md": "# Keys\n\nThe keys.\n",
        "notes.md": "# Front matter settings of a page\n\nThe keys that a page may begin with.\n",
    }
    base = Base(write(tmp_path_factory.mktemp("names"), pages))
    asyncio.run(base.index_all())
    shown = [line.path for line in asyncio.run(base.finder.search("settings")).pages]
    assert shown == ["settings.md", "settings", "settings/colours.md"]
    shown = [line.path for line in asyncio.run(base.finder.search("Front matter settings of a page")).pages]
    assert shown == ["notes.md"]
    # A question that is no name is still asked for each name in it.
    shown = [line.path for line in asyncio.run(base.finder.search("where is the front matter of settings")).pages]
    assert {"front-matter", "settings.md"} <= set(shown)


async def test_a_question_for_a_page_reads_the_page_and_not_one_of_its_sections(base: Base) -> None:
    answer = await base.finder.search("open the Browser page")
    assert (answer.scent.level, answer.scent.next) == ("sufficient", "kb_read('ui/browser.md')")


async def test_the_page_of_the_first_hit_is_among_the_pages(base: Base) -> None:
    """`sorting` is a section; pages that a word of the question names don't hide the page that has it."""
    answer = await base.finder.search("Sorting", mode="navigation")
    assert answer.hits[0].path == "ui/browser.md"
    assert answer.pages[0].path == "ui/browser.md"


async def test_a_question_for_an_empty_page_says_that_it_is_empty(base: Base) -> None:
    answer = await base.finder.search("nothing-yet")
    assert answer.scent.level == "partial"
    assert answer.scent.reason == "the page with this name is empty"
    assert answer.scent.next == "kb_read('runbooks/nothing-yet.md')"


async def test_for_a_path_that_does_not_exist_the_nearest_folder_comes_first(base: Base) -> None:
    with pytest.raises(NoSuchPath) as refused:
        await base.finder.search("what is a chart", path="Topics")
    assert refused.value.nearest == ("docs/topics", "docs/topics/charts.md")


@pytest.mark.parametrize("query", ["notes tagged TEAM", "#team", "tag:team", "which pages have the tag team?"])
async def test_a_question_for_the_pages_with_a_tag_lists_them_and_leads_to_their_map(
    tmp_path: Path, query: str
) -> None:
    tagged = {f"f/{n}.md": f"---\ntags: [team]\n---\n# Page {n}\n\nText.\n" for n in range(3)}
    base = Base(
        write(tmp_path, {**tagged, "f-g.md": "---\ntags: [team]\n---\n", "other.md": "# Other\n\nA team has notes.\n"})
    )
    await base.index_all()
    answer = await base.finder.search(query)
    scent = answer.scent
    assert (scent.level, scent.reason, scent.next) == ("partial", "4 pages have this tag", "kb_map('#team')")
    assert [page.path for page in answer.pages] == ["f-g.md", *tagged]
    assert [page.path for page in (await base.finder.search(query, path="f")).pages] == [*tagged]
    short = await base.finder.search(query, limit=1)
    assert len(short.pages) == 1
    continued = await base.finder.search(query, limit=1, cursor=short.next_cursor)
    assert continued.scent.next == "kb_map('#team')"
    assert "have this tag" not in (await base.finder.search("remove a tag from a page")).scent.reason


async def test_a_question_that_says_more_than_a_tag_or_is_filtered_lists_the_pages_of_its_hits(tmp_path: Path) -> None:
    tagged = {f"f/{n}.md": f"---\ntags: [team]\n---\n# Page {n}\n\nLamp {n}.\n" for n in range(12)}
    base = Base(write(tmp_path, {**tagged, "draft.md": "---\ntags: [team, draft]\n---\n# Plan\n\nThe team plans.\n"}))
    await base.index_all()
    more = await base.finder.search("lamp 11 #team")
    assert (more.pages[0].path, more.scent.next) == ("f/11.md", "kb_map('#team')")
    filtered = await base.finder.search("#team", filters=Filters(tags=("draft",)))
    assert [page.path for page in filtered.pages] == ["draft.md"]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("what did we decide on 18 March 2020?", "notes/2020-03-18.md"),
        ("meeting of March 5, 2020", "notes/2020-03-05.md"),
        ("meeting on 05.03.2020", "notes/2020-03-05.md"),
        ("meeting notes of May 2021", "notes/2021-05-20.md"),
    ],
)
async def test_a_date_in_words_finds_the_page_of_that_day(tmp_path: Path, query: str, path: str) -> None:
    days = ("2019-03-18", "2020-03-05", "2020-03-18", "2020-05-18", "2021-03-18", "2021-05-20")
    base = Base(write(tmp_path, {f"notes/{day}.md": "# Meeting\n\nWe decided to wait.\n" for day in days}))
    await base.index_all()
    assert (await base.finder.search(query)).hits[0].path == path


async def test_of_several_pages_of_a_name_none_is_sufficient(tmp_path: Path) -> None:
    """`kb_read('setup')` refuses the name for the same reason."""
    pages = {
        "docs/setup.md": "# Setup\n\nInstall it with pip.\n",
        "blog/setup.md": "# Setup\n\nHow the blog is made.\n",
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    for query in ("setup", "open the setup page", "show me the page Setup"):
        answer = await base.finder.search(query)
        assert (answer.scent.level, answer.scent.reason) == ("partial", "2 pages or sections have this name")
        assert {place.path for place in answer.pages} == set(pages)
    assert (await base.finder.search("open docs/setup")).scent.level == "sufficient"


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("My Notes", "My Notes"),
        ("what is in My Notes?", "My Notes"),
        ("open the My Notes folder", "My Notes"),
        ("list my notes", "Notes"),
        ("list all pages", ""),
    ],
)
async def test_a_folder_may_be_called_like_the_words_that_ask(tmp_path: Path, query: str, path: str) -> None:
    pages = {
        "My Notes/ideas.md": "# Ideas\n\nA rocket.\n",
        "Notes/b.md": "# B\n\nText.\n",
        "All Pages/a.md": "# A\n\nText.\n",
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    assert (await base.finder.search(query)).scent.next == f"kb_map({path!r})"


NUMBERED = {
    "doc/adr/0007-use-queues.md": "# 7. Use queues\n\nBecause of the load, 0014 too.\n",
    "names.md": "# RFC 12 - Names\n\nNames are short.\n",
    "log.md": "# RFC2119: Words\n\nMust and should.\n",
    "weights.md": "# Decision 14: what ranking weighs\n\nScores are summed.\n",
    "11.03 Contracts.md": "# Contracts\n\nWho signs.\n",
    "2026-11-28-release-notes.md": "# What is new\n\nSpeed.\n",
    "2024 in review.md": "# In review\n\nA good year.\n",
    "404-handling.md": "# Theme\n\nA page for what is missing.\n",
    "errors/http.md": "# HTTP\n\nStatus codes.\n\n## 404\n\nNothing is there.\n",
    "500-miles.md": "# A song\n\nWalking.\n",
    "errors/500.md": "# Server errors\n\nLook at the log.\n",
    "keps/node/3973-pods/README.md": "# Pods get more\n\nA proposal.\n",
    "keps/node/3973-pods/notes.md": "# Notes\n\nOn a meeting.\n",
    "long.md": f"# Case {'9' * 5_000}: a number that no program reads\n\nText.\n",
    "howto.md": "# How to write an ADR\n\nSee ADR 7, adr/0007, RFC 12, decision 14, 0007 and 11.03.\n",
}


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return indexed(tmp_path_factory.mktemp("numbered"), NUMBERED)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("0007", "doc/adr/0007-use-queues.md"),
        ("adr/0007", "doc/adr/0007-use-queues.md"),
        ("doc/adr/7", "doc/adr/0007-use-queues.md"),
        ("ADR-0007", "doc/adr/0007-use-queues.md"),
        ("ADR 7", "doc/adr/0007-use-queues.md"),
        ("adr7", "doc/adr/0007-use-queues.md"),
        ("RFC 12", "names.md"),
        ("RFC 2119", "log.md"),
        ("Decision 14", "weights.md"),
        ("decision #0014", "weights.md"),
        ("11.03", "11.03 Contracts.md"),
        ("2026-11-28", "2026-11-28-release-notes.md"),
        ("500", "errors/500.md"),
        ("404", "errors/http.md"),
        ("3973", "keps/node/3973-pods/README.md"),
        ("keps/node/3973", "keps/node/3973-pods/README.md"),
        ("what does ADR 7 say?", "doc/adr/0007-use-queues.md"),
        ("what is in decision 0014", "weights.md"),
        ("was sagt RFC 12", "names.md"),
    ],
)
async def test_a_numbered_page_is_found_by_its_number_if_nothing_else_is_called_so(
    numbered: Base, query: str, path: str
) -> None:
    answer = await numbered.finder.search(query)
    assert (answer.scent.level, answer.scent.next) == ("sufficient", f"kb_read({path!r})")


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("why did ADR 7 reject the load balancer", ["doc/adr/0007-use-queues.md"]),
        ("how short are names by RFC-12?", ["names.md"]),
        ("is decision #14 about scores", ["weights.md"]),
        ("does adr 7 contradict decision 14", ["doc/adr/0007-use-queues.md", "weights.md"]),
    ],
)
async def test_a_page_that_a_question_mentions_by_its_number_comes_first(
    numbered: Base, query: str, paths: list[str]
) -> None:
    """Pages that say more of the other words came first, and the answer was `lost`."""
    answer = await numbered.finder.search(query, explain=True)
    assert {*list(dict.fromkeys(hit.path for hit in answer.hits))[: len(paths)]} == {*paths}
    assert answer.scent.level != "lost"
    assert "the question names the best page" in answer.scent.reason
    assert '"mentioned": ' in json.dumps(answer.explanation)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("how do I get started?", "first.md"),
        ("where can I roll back a release", "back.md"),
        ("how does one get started with queues", "queues.md"),
    ],
)
async def test_a_page_called_what_is_left_without_the_words_that_ask_comes_first(
    tmp_path: Path, query: str, path: str
) -> None:
    pages = {
        "first.md": "---\naliases: [get started]\n---\n# First steps\n\nInstall it.\n",
        "queues.md": "# Queues\n\nTo get started with queues, open the started queue and get a queue.\n",
        "back.md": "# Roll back a release\n\nUse the button.\n",
        "notes.md": "# Notes\n\nWhere a release was, we roll. We roll a release back, and a release rolls back again.\n",
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    answer = await base.finder.search(query, mode="discovery")
    assert answer.hits[0].path == path
    assert ("the question names the best page" in answer.scent.reason) is (path != "queues.md")


@pytest.mark.parametrize("query", ["what is new in python 3.11", "is port 500 open", "the ADR 99 about queues"])
async def test_a_word_with_a_number_that_no_page_is_called_mentions_none(numbered: Base, query: str) -> None:
    assert "names the best page" not in (await numbered.finder.search(query)).scent.reason


async def test_of_many_pages_of_a_number_none_is_mentioned(tmp_path: Path) -> None:
    pages = {f"{team}/adr/0007-x.md": f"# Choice of {team}\n\nQueues for {team}.\n" for team in "abcde"}
    base = Base(write(tmp_path, pages))
    await base.index_all()
    assert "names the best page" not in (await base.finder.search("why did adr 7 choose queues for c")).scent.reason


async def test_a_year_is_no_number_of_a_page(numbered: Base) -> None:
    assert (await numbered.finder.search("2024")).scent.level != "sufficient"


async def test_of_several_folders_of_a_name_the_answer_shows_the_others(tmp_path: Path) -> None:
    folders = ("archive/2021/qa/minutes", "web/minutes", "api/minutes")
    base = Base(write(tmp_path, {f"{folder}/may.md": "# May\n\nText.\n" for folder in folders}))
    await base.index_all()
    answer = await base.finder.search("minutes")
    first, *others = [page.path for page in answer.pages][:3]
    assert {first, *others} == set(folders)
    assert answer.scent.reason == f"the question asks what is in {first!r}; `pages` lists other folders of this name"
    assert (answer.scent.level, answer.scent.next) == ("partial", f"kb_map({first!r})")
    assert "other folders" not in (await base.finder.search("what is in web/minutes")).scent.reason


async def test_a_heading_of_stop_words_is_no_name_that_anybody_asks_for(tmp_path: Path) -> None:
    text = "The release is made by a script that is in the folder of the tools, and it is on the page of the day."
    base = Base(write(tmp_path / "one", {"a.md": f"# Release\n\n{text}\n\n## How\n\n{text}\n"}))
    await base.index_all()
    assert (await base.finder.search("how")).scent.level != "sufficient"
    base = Base(write(tmp_path / "two", {"a.md": f"# Release\n\n{text}\n", "how.md": f"# How\n\n{text}\n"}))
    await base.index_all()
    assert (await base.finder.search("how")).scent.next == "kb_read('how.md')", "a page may be called so"


MENTIONS = {
    "python/03-lists.md": "# Lists\n\nA list has items.\n",
    "sorting.md": "# Sorting fails\n\nIn Python 3, to sort fails for mixed types.\n",
    "C.md": "# C\n\nAn old language.\n",
    "C++.md": "# C++\n\nC++ is a language with classes.\n",
    "log.md": "# Log\n\n- 2026-01-02: read about whales\n",
    "login.md": "# Login\n\nTo log in, enter your password.\n",
    "logout.md": "# End of a session\n\nPress the picture and choose Log out.\n",
    "processor.md": "# Processor\n\nThe processor has two threads. Stop it with the switch.\n",
    "install.md": "# Install\n\nRun the program.\n",
    "overview.md": "# Overview\n\n## ADR 14\n\nSee the folder.\n\n## ADR 15\n\nSee the folder.\n",
    "adr/0014-feedback.md": "# 14. No second search\n\nFeedback was dropped.\n",
    "adr/0021-end-the-lottery.md": "# One order for all\n\nWho asks first comes first.\n",
    "tickets.md": "# Tickets\n\nThe lottery: at the end, each has one number. End of the lottery: noon.\n",
    "matters/m-2024-019.md": "# Dairy\n\nHarrow was offered ten thousand.\n",
    "matters/m-2024-020.md": "# Harrow\n\nThe offer of Harrow: an offer is open until May.\n",
}


@pytest.fixture(scope="module")
def mentioning(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return indexed(tmp_path_factory.mktemp("mentioning"), MENTIONS)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("why does python 3 fail to sort", "sorting.md"),
        ("what is C++?", "C++.md"),
        ("how do I log in?", "login.md"),
        ("how do I log out?", "logout.md"),
        ("what does ADR 14 say", "adr/0014-feedback.md"),
        ("why ADR 14?", "adr/0014-feedback.md"),
        ("why did ADR 14 drop feedback", "adr/0014-feedback.md"),
        ("why was the second search dropped in adr/0014", "adr/0014-feedback.md"),
        ("why does ADR no. 14 have no second search", "adr/0014-feedback.md"),
        ("what is the offer of M-2024-019 Harrow", "matters/m-2024-019.md"),
        ("why did ADR 21 end the lottery", "adr/0021-end-the-lottery.md"),
    ],
)
async def test_a_name_within_a_question_is_taken_as_it_was_meant(mentioning: Base, query: str, path: str) -> None:
    """Pages of an accidental name (`python/03`, `C`, `Log`) came first, and a heading `ADR 14` hid the page of that number."""
    assert (await mentioning.finder.search(query)).hits[0].path == path


async def test_another_page_than_the_one_that_is_named_is_not_sufficient(tmp_path: Path) -> None:
    """That ADR 14 says nothing of a load balancer does not make another record about one the answer."""
    pages = {
        "adr/0014-feedback.md": "# 14. No second search\n\nFeedback was dropped.\n",
        "adr/0009-nodes.md": "# 9. Nodes without a load balancer\n\nWe reject the load balancer: clients choose a node.\n",
        "food.md": "# Food\n\nLunch is at noon.\n",
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    answer = await base.finder.search("why did we reject the load balancer")
    assert (answer.scent.level, answer.hits[0].path) == ("sufficient", "adr/0009-nodes.md")
    answer = await base.finder.search("why did ADR 14 reject the load balancer")
    assert (answer.scent.level, answer.hits[0].path) == ("partial", "adr/0009-nodes.md")
    assert "the question names another page" in answer.scent.reason


async def test_a_verb_and_a_word_that_is_no_particle_are_not_one_word(mentioning: Base) -> None:
    answer = await mentioning.finder.search("how do I stop a process or a thread")
    assert (answer.scent.level, "no hit has 'process'" in answer.scent.reason) == ("partial", True)


async def test_whether_a_page_is_mentioned_does_not_depend_on_its_place_in_the_alphabet(tmp_path: Path) -> None:
    pages = {f"{team}/adr/0007-x.md": f"# Choice of {team}\n\nQueues were chosen.\n" for team in "abcdefgh"}
    base = Base(write(tmp_path, pages))
    await base.index_all()
    for team in "ah":
        answer = await base.finder.search("why did ADR 7 choose queues", path=team)
        assert "the question names the best page" in answer.scent.reason
        assert (await base.finder.search("what does ADR 7 say", path=team)).scent.level == "sufficient"


async def test_duplicates_end_no_answer_before_all_pages_were_shown(tmp_path: Path) -> None:
    same = "".join(f"## Part {n}\n\nThe valve is set by hand and its pressure is read.\n\n" for n in range(70))
    pages = {"valves.md": f"# Valves\n\n{same}"} | {
        f"{n}.md": f"# Machine {n}\n\nMachine {n} has a valve.\n" for n in range(30)
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    seen: list[str] = []
    cursor: str | None = None
    while True:
        answer = await base.finder.search("pressure of a valve", limit=3, cursor=cursor)
        seen += [hit.path for hit in answer.hits]
        if (cursor := answer.next_cursor) is None:
            break
    whole = await base.finder.search("pressure of a valve", limit=50)
    assert {hit.path for hit in whole.hits} <= set(seen)
    assert len(set(seen)) > 25


@pytest.mark.parametrize(
    ("query", "folder"),
    [
        ("which ADRs are there", "adr"),
        ("list the ADRs", "adr"),
        ("show me all policies", "docs/policy"),
        ("what boxes do we have", "box"),
        ("list the logs", "logs"),
        ("how do policies differ", ""),
        ("show me the news", ""),
    ],
)
async def test_a_folder_named_after_one_of_its_pages_is_asked_for_in_the_plural(
    tmp_path: Path, query: str, folder: str
) -> None:
    pages = {
        "adr/0014-queues.md": "# 14. Queues\n\nWork waits in queues.\n",
        "docs/policy/travel.md": "# Travel\n\nTrips are booked by the office.\n",
        "box/one.md": "# Red box\n\nIt holds letters.\n",
        "new/arrivals.md": "# Arrivals\n\nBooks that came.\n",
        "weekly.md": "# Weekly\n\nThe news of the week: the news is good.\n",
        "log/old.md": "# Old log\n\nIt is closed.\n",
        "logs/new.md": "# New log\n\nIt is open.\n",
    }
    made = Base(write(tmp_path / "kb", pages))
    await made.index_all()
    answer = await made.finder.search(query)
    assert (answer.scent.next == f"kb_map({folder!r})") is bool(folder), answer.scent
