from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.pages.document import Document, find_section, parse, section_text, section_tokens
from knowledge.pages.markdown.inline import plain


def doc(text: str, path: str = "notes/a-page.md") -> Document:
    return parse(path, text.encode())


@given(
    st.binary(max_size=400)
    | st.text("-:[]{}&*a\n#>`%|<!~ \t\r", max_size=200).map(lambda t: f"---\n{t}\n---\n{t}".encode())
)
def test_anything_can_be_parsed_and_its_metadata_is_json(raw: bytes) -> None:
    document = parse("a.md", raw)
    json.dumps(document.metadata, allow_nan=False)
    document.text.encode()
    assert "\r" not in document.text
    assert 1 <= document.body_line <= document.text.count("\n") + 2


def test_front_matter_describes_the_document() -> None:
    found = doc(
        "---\ntitle: 'On: merging'\nsummary: All of it.\ntype: Decision\nsource: official:x\nlang: en-GB\ntags: [One, '#two']\n"
        "alias: Joining\nuntrusted: yes\nday: 2024-05-06\nat: 2024-05-06 7:08:09\nn: 3\nbad: .nan\n---\n# Head\n"
    )
    assert (found.title, found.summary, found.kind, found.source) == (
        "On: merging",
        "All of it.",
        "decision",
        "official:x",
    )
    assert (found.language, found.tags, found.aliases, found.untrusted) == ("en", ("One", "two"), ("Joining",), True)
    assert found.metadata["day"] == "2024-05-06"
    assert found.metadata["at"] == "2024-05-06T07:08:09"
    assert found.metadata["n"] == 3
    assert "bad" not in found.metadata
    assert found.body_line == 15
    assert found.problems == ()


def test_what_mdx_imports_does_not_make_a_page_english() -> None:
    imports = "".join(f'import Picture{n} from "./img/of_the_page_with_the_{n}.png";\n' for n in range(20))
    text = f"{imports}export const year = 2026\n\nDie Wallbox lädt das Auto mit dem Strom vom Dach, wenn die Sonne scheint.\n"
    assert doc(text).language == "de"
    assert doc("Import the keys from the vault.\n\nThen export them to the file.\n").language == "en"


@pytest.mark.parametrize(
    "addresses",
    [
        "- [Rules](https://github.com/grafana/loki/a/com/de/la/en) - [Docs](https://example.com/com/per/la/les)\n",
        "See https://example.com/com/per/la/les/una for www.example.com/de/la/com.\n",
        "[a]: https://example.com/com/per/la/les/una\n",
        '{{< card link="/com/per/la/les/una/dels" >}}\n',
        'Text <a href="/com/per/la/les/una/dels">here</a>.\n',
    ],
)
def test_addresses_do_not_decide_the_language_of_a_page(addresses: str) -> None:
    assert doc(f"{addresses * 5}\nThe labels of the metrics are in the query.\n").language == "en"


def test_a_table_of_contents_does_not_hide_the_language_of_a_page() -> None:
    """Of 150 proposals for Kubernetes, 94 had no language, and one was Croatian."""
    contents = "".join(f"  - [Part {n} is API v{n} GA](#part-{n}-is-api)\n" for n in range(60))
    assert (
        doc(
            f"# CRD\n\n## Contents\n\n{contents}\n## Summary\n\nThis is the way in which the API is extended.\n"
        ).language
        == "en"
    )
    links = "".join(f"- [Where the keys of the {n}th user are](a{n}.md)\n" for n in range(9))
    assert doc(links).language == "en", "a page of links alone has the language of their texts"


def test_norway_is_no_boolean() -> None:
    assert doc("---\nlang: no\n---\nx").language == "no"


def test_a_number_that_would_lose_a_figure_is_the_text_that_was_written() -> None:
    found = doc("---\ntitle: 3.10\ntags: [1.20]\naliases: [2.0, 1e3]\nweight: 0.5\n---\nx")
    assert (found.title, found.tags, found.aliases) == ("3.10", ("1.20",), ("2.0", "1e3"))
    assert found.metadata["weight"] == 0.5


@pytest.mark.parametrize("end", ["---", "..."])
def test_front_matter_ends_with_dashes_or_dots(end: str) -> None:
    assert doc(f"---\ntitle: T\n{end}\nbody").title == "T"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\ntitle: a: b\nx: [\n---\nbody", "broken YAML"),
        ("+++\ntitle = 'x'\n+++\nbody", "TOML"),
        ("---\ntitle: never closed\n\nbody", "never closed"),
        ("---\n- a\n- b\n---\nbody", "key: value"),
        (f"---\na: {'x' * 70_000}\n---\nbody", "70003 characters"),
        (f"---\na: {'[' * 5000}\n---\nbody", "nested deeper"),
        ("---\n" + "".join(f"{' ' * n}a:\n" for n in range(60)) + "---\nbody", "nested deeper"),
        (
            "---\na: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{c}: &{c} [{','.join(['*' + chr(ord(c) - 1)] * 9)}]\n" for c in "bcdefghi")
            + "---\nbody",
            "values",
        ),
        (
            "---\na: &a {x: 1}\n"
            + "".join(f"{c}: &{c} {{<<: [{','.join(['*' + chr(ord(c) - 1)] * 9)}]}}\n" for c in "bcdefghi")
            + "---\nbody",
            "values",
        ),
        ("---\na: &a [*a]\n---\nbody", "alias"),
        ("---\n? [a]\n: b\n---\nbody", "plain word"),
        ("---\nx: *nothing\n---\nbody", "alias"),
    ],
)
def test_unreadable_front_matter_is_reported_and_the_text_stays(text: str, said: str) -> None:
    started = time.process_time()
    found = doc(text)
    assert time.process_time() - started < 2
    assert said in " ".join(found.problems)
    assert "body" in found.text.split("\n")[found.body_line - 1 :]


def test_a_colon_in_a_title_does_not_cost_the_title() -> None:
    assert doc("---\ntitle: Merging: how\nkind: guide\n---\nbody").title == "Merging: how"
    assert doc("---\ntitle: Merging: how\nkind: guide\n---\nbody").kind == "guide"


def test_a_document_that_begins_with_a_rule_has_no_front_matter() -> None:
    found = doc("---\nJust some prose.\n---\nmore")
    assert (found.body_line, found.metadata, found.problems) == (1, {}, ())


def test_an_unsafe_yaml_tag_builds_nothing() -> None:
    assert doc("---\na: !!python/object/apply:os.system [echo]\n---\n").metadata == {"a": ["echo"]}


def test_titles_come_from_front_matter_then_heading_then_name() -> None:
    assert doc("# A `b` [c](d)\n").title == "A b c"
    assert doc("text", "x/release_check-list.md").title == "Release check list"
    assert doc("text", "guides/_index.md").title == "Guides"


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            "# T\n\n[![CI](a)](b) ![x](y)\n\nThe **engine** finds [pages](x.md) fast. More.",
            "The engine finds pages fast.",
        ),
        ("# T\n\n- [One](a.md)\n- [Two](b.md)\n\nWhat it is about, in short.", "What it is about, in short."),
        ("# T\n\n| a |\n|---|\n| b |\n\n```\ncode\n```\n\nReal words here.", "Real words here."),
        ("> [!info] Title\n> The callout says this.", "The callout says this."),
        ("# T\n\n- only a list of things", "only a list of things"),
        ("[a](b.md) | [c](d.md)\n\n#tag #other\n\nSentence.", "Sentence."),
        ("# Only a heading", ""),
        ("", ""),
        # The generators of real sites: Hugo, Jekyll, kramdown, Docusaurus, MkDocs, MDX, GitLab.
        (
            '{{< feature-state for_k8s_version="v1.11" state="stable" >}}\n\n`crictl` is a command line for containers.',
            "crictl is a command line for containers.",
        ),
        (
            'Some providers enable it as an {{< glossary_tooltip text="Addon" term_id="addons" >}} of the node.',
            "Some providers enable it as an Addon of the node.",
        ),
        (
            "{% include nav.html %}\n{:.no_toc}\n\nHow the release is cut and signed.",
            "How the release is cut and signed.",
        ),
        (":::note\nMind the gap.\n:::\n\nThe train leaves from platform nine.", "The train leaves from platform nine."),
        ('!!! warning "Old"\n\nThe train leaves from platform nine.', "The train leaves from platform nine."),
        ("import X from './x'\n\nThe train leaves from platform nine.", "The train leaves from platform nine."),
        ("[[_TOC_]]\n\nThe train leaves from platform nine.", "The train leaves from platform nine."),
        ("<!-- overview -->\n\nThe train leaves from platform nine.", "The train leaves from platform nine."),
        # Lines that tell nothing.
        ("Note: out of date since the last release.\n\nHow keys are rotated.", "How keys are rotated."),
        ("# Keys\n\nKeys\n\nHow they are rotated.", "How they are rotated."),
        ("Table of Contents\n\n- [A](#a)\n\nHow keys are rotated.", "How keys are rotated."),
        ("Owner: Ann\nStatus: draft\n\nHow keys are rotated.", "How keys are rotated."),
        ("Welcome to the project! It stores keys for three teams.", "It stores keys for three teams."),
        ("See [the guide](g.md) or ask us.\n\nHow keys are rotated.", "How keys are rotated."),
        ("[Home](a.md) > [Keys](b.md) > c\n\nHow keys are rotated.", "How keys are rotated."),
        # A poor line is better than none.
        (
            "Note: this key is for tests only, never for customers.",
            "Note: this key is for tests only, never for customers.",
        ),
        ("Attendees:", "Attendees:"),
        # What a sentence announces is part of it.
        ("You can:\n\n- rotate keys;\n- revoke a key.\n", "You can: rotate keys; revoke a key"),
        ("Run the following command:\n\n```\nx\n```\n\nIt rotates all keys.", "It rotates all keys."),
        # Short references are shown as their words; code keeps its brackets.
        (
            "The [guide] explains `keys[0]` and [the rest][r].\n\n[guide]: g.md",
            "The guide explains keys[0] and the rest.",
        ),
        # If there is no sentence: the labels of a list of links.
        ("# Guides\n\n- [Deploy](d.md)\n- [Roll back](r.md)\n", "Deploy, Roll back"),
        # The dot of an ordinal number in a date ends no sentence.
        ("Die Abgabe ist bis zum 31. Juli fällig. Danach nicht.", "Die Abgabe ist bis zum 31. Juli fällig."),
        ("Mødet holdes den 3. september i salen. Kom tidligt.", "Mødet holdes den 3. september i salen."),
        ("The board meets on day 12. Then we leave.", "The board meets on day 12."),
        # Scripts without spaces and other full stops.
        ("# T\n\n短い\n\n鍵は毎週交換され、金庫に保管されます。続き。", "鍵は毎週交換され、金庫に保管されます。"),
        ("कुंजियाँ हर सप्ताह बदली जाती हैं। और भी कुछ।", "कुंजियाँ हर सप्ताह बदली जाती हैं।"),
    ],
)
def test_the_summary_is_the_first_sentence_that_says_something(text: str, summary: str) -> None:
    assert doc(text).summary == summary


@pytest.mark.parametrize("mark", ["[", "{{", "{%", "<%", "![", ":::", "- [", "> ", "a: ", "{:", "[["])
def test_a_page_of_one_mark_is_read_in_no_time(mark: str) -> None:
    """A page may be megabytes of brackets: only a part of each block is searched."""
    began = time.process_time()
    doc(mark * 20_000)
    doc("\n\n".join([mark * 300] * 60))
    assert time.process_time() - began < 1


def test_a_long_summary_is_cut_after_a_word() -> None:
    summary = doc("word " * 100).summary
    assert len(summary) <= 200
    assert summary.endswith("word...")


def test_tags_follow_obsidian_and_ignore_code() -> None:
    text = (
        "---\ntags: a, b\n---\n# H #in-heading\n#x/y and #12 and #1a a#no `#code` (#no) #ü\n\n"
        "```\n#no\n```\n- a\n  ```\n  #no\n  ```\n#a"
    )
    assert doc(text).tags == ("a", "b", "in-heading", "x/y", "1a", "ü")


def test_links_are_raw_targets_in_order_once() -> None:
    text = (
        "[[Page#Sec|label]] ![[pic.png]] [a](b%20c.md#x 'title') <https://x.y> [u](https://x.y) [m](mailto:a@b) [h](#here)\n"
        "[b](<with space.md>) `[[code]]` \\[no](x.md\n[p](a(b).md) [[Page#Sec]]\n\n    [[indented]]\n\n[ref]: target.md\n[^1]: note"
    )
    assert doc(text).links == ("Page#Sec", "pic.png", "b%20c.md#x", "with space.md", "x.md", "a(b).md", "target.md")


@pytest.mark.parametrize(
    ("raw", "text", "said"),
    [
        (b"\xef\xbb\xbf# A", "# A", ""),
        (b"a\r\nb\rc\n", "a\nb\nc\n", ""),
        (b"a\x00b", "a\ufffdb", "NUL"),
        (b"a\xffb", "a\ufffdb", "byte 1"),
        ("# ü".encode("utf-16"), "# ü", "UTF-16"),
        (b"\xfe\xff\x00#", "#", "UTF-16"),
        (b"", "", ""),
    ],
)
def test_odd_bytes_are_read_as_far_as_possible(raw: bytes, text: str, said: str) -> None:
    found = parse("a.md", raw)
    assert found.text == text
    assert said in " ".join(found.problems)
    assert bool(found.problems) == bool(said)


@pytest.mark.parametrize(
    "unit",
    [
        b"a",
        b"word. ",
        b"` `` ```",
        b"[",
        b"[x](",
        b"<a ",
        b">",
        b"# ",
        b"*",
        b"![a](b)",
        b"- ",
        b"#a ",
        b"<!-- ",
        b"|",
        b"\\`",
    ],
)
def test_a_line_without_end_takes_linear_time(unit: bytes) -> None:
    started = time.process_time()
    parse("a.md", unit * (2_000_000 // len(unit)))
    assert time.process_time() - started < 10


def test_thousands_of_headings_are_all_there_with_their_paths() -> None:
    found = doc("".join(f"# H{n}\n\n## Sub\n\ntext\n\n" for n in range(3000)))
    assert len(found.headings) == 6000
    assert found.headings[-1].path == ("H2999", "Sub")
    assert len(section_tokens(found)) == 6000


GUIDE = "# Guide\n\nintro\n\n## Set up\n\none\n\n### On `Linux`\n\ntwo\n\n## Use\n\n### On Linux\n\nthree\n\n"


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("Set up", 5),
        ("set  UP", 5),
        ("Guide > Set up", 5),
        ("guide>set up", 5),
        ("## Set up", 5),
        ("#set-up", 5),
        ("set-up", 5),
        ("Use > On Linux", 15),
        ("#on-linux-1", 15),
        ("on-linux-1", 15),
        ("#on-linux", 9),
        ("Set up > On `Linux`", 9),
    ],
)
def test_a_section_is_found_by_text_path_or_anchor(asked: str, line: int) -> None:
    assert find_section(doc(GUIDE), asked).line == line


def test_sections_with_one_name_are_distinguished() -> None:
    with pytest.raises(AmbiguousName) as caught:
        find_section(doc(GUIDE), "On Linux")
    assert len(caught.value.candidates) == 2


@pytest.mark.parametrize("asked", ["nothing", "", "#", ">"])
def test_a_missing_section_is_answered_with_the_existing_ones(asked: str) -> None:
    with pytest.raises(NoSuchSection) as caught:
        find_section(doc(GUIDE), asked)
    assert "Guide > Set up" in caught.value.sections


def test_a_section_reaches_to_the_next_of_its_level() -> None:
    found = doc(GUIDE)
    assert section_text(found, found.headings[1]) == (5, 11, "## Set up\n\none\n\n### On `Linux`\n\ntwo")
    assert section_text(found, found.headings[0])[:2] == (1, 17)


@given(st.lists(st.sampled_from(["# a", "## b", "### c", "text", "", "```"]), max_size=30))
def test_section_tokens_are_those_of_its_lines(lines: list[str]) -> None:
    found = doc("\n".join(lines))
    for heading in found.headings:
        ends = [h.line - 1 for h in found.headings if h.line > heading.line and h.level <= heading.level]
        own = lines[heading.line - 1 : ends[0]] if ends else lines[heading.line - 1 :]
        size = len("\n".join(own)) + bool(ends)
        assert section_tokens(found)[heading.line] == -(-size // 4)


@pytest.mark.parametrize(
    ("marked", "read"),
    [
        ("**a** _b_ *c* ~~d~~ ==e==", "a b c d e"),
        ("[a](b) ![c](d) [[e|f]] [[g]] <https://h>", "a c f g https://h"),
        ("`a*b*` snake_case 2 * 3 \\*x\\*", "a*b* snake_case 2 * 3 *x*"),
        ("[a [b]](c) x[^1] <b>y</b> a &amp; b", "[a [b]](c) x y a & b"),
    ],
)
def test_plain_text_reads_without_its_markup(marked: str, read: str) -> None:
    assert plain(marked) == read


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The index is a cache of the truth and it can be rebuilt when it is lost.", "en"),
        ("Der Index ist ein Zwischenspeicher und kann jederzeit neu gebaut werden, wenn er nicht mehr da ist.", "de"),
        ("L'index est un cache et il peut être reconstruit à tout moment dans la base.", "fr"),
        ("El índice es una copia que se puede reconstruir cuando no está en la base de los datos.", "es"),
        ("Индекс это копия и он может быть построен снова, когда его нет.", "ru"),  # noqa: RUF001 - Russian
        ("索引はいつでも作り直すことができます", "ja"),
        ("索引可以随时重建", "zh"),
        ("Checklist", ""),
        ("", ""),
    ],
)
def test_the_language_is_detected_by_script_and_little_words(text: str, language: str) -> None:
    assert doc(text).language == language


def test_links_to_pages_and_other_files_are_kept_without_anchor_and_escapes() -> None:
    text = (
        "---\ntitle: T\n---\n[a](../b%20c.md#part) ![i](x.png) [[Deploy guide#Roll back|how]] ![[embed]] "
        "[web](https://x.org) [here](#a)\n\n"
        "`[code](no.md)` [a](../b%20c.md)\n\n<p><a class='x' href=\"/docs/d.md?x=1\">d</a> <a href='mailto:a@b.c'>m</a></p>\n\n"
        "<!-- [hidden](h.md) -->\n\n[r]: sub/r.md\n[long label]:\n  sub/next.md\n[no definition]:\nwords follow\n"
    )
    assert doc(text).page_links == (
        ("../b c.md", False),
        ("x.png", False),
        ("Deploy guide", True),
        ("embed", True),
        ("sub/r.md", False),
        ("sub/next.md", False),
        ("/docs/d.md", False),
    )
    assert len(doc(" ".join(f"[x](p{n}.md)" for n in range(2_000))).page_links) == 500
