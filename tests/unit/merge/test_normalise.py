"""A caller's text is read in the form of the file, and as the document that it means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.errors import AmbiguousName, NoSuchSection
from knowledge.merge.document.units import cut
from knowledge.merge.document_form import TakenContent, as_document
from knowledge.merge.normalise import fit_to_page
from knowledge.merge.three_way.join import join

FILE = "\ufeff---\r\nk: v\r\n---\r\n\r\n# T\r\n\r\nfirst\r\n\r\nlast\r\n"
PAGE = "---\nk: v\n---\n\n# T\n\nintro\n\n## A\n\nabout A\n\n### A1\n\nabout A1\n\n## B\n\nabout B\n"


@pytest.mark.parametrize(
    "sent",
    [
        "# T\n\nfirst\n\nlast CHANGED\n",
        "\n# T\n\nfirst\n\nlast CHANGED\n",
        "---\nk: v\n---\n\n# T\n\nfirst\n\nlast CHANGED\n",
        "\ufeff---\r\nk: v\r\n---\r\n\r\n# T\r\n\r\nfirst\r\n\r\nlast CHANGED\r\n",
    ],
    ids=["as read", "a line before", "with front matter", "as it is"],
)
def test_however_it_is_sent_only_what_was_changed_is_changed(sent: str) -> None:
    incoming, base = fit_to_page(sent, FILE, FILE)
    assert base == FILE
    assert incoming == FILE.replace("last", "last CHANGED")


def test_a_file_that_was_converted_meanwhile_is_still_the_same_file() -> None:
    now = FILE.removeprefix("\ufeff").replace("\r\n", "\n").replace("first", "first, by hand")
    incoming, base = fit_to_page("# T\n\nfirst\n\nlast CHANGED\n", FILE, now)
    found = join(cut(base), cut(now), cut(incoming))
    assert not found.conflicts
    assert found.text == now.replace("last", "last CHANGED")


def test_mixed_line_ends_stay_where_they_are() -> None:
    mixed = "a\r\nb\nc\r\nd\n"
    incoming, base = fit_to_page("a\nb\nnew\nc\nd\n", mixed, mixed)
    assert base == mixed
    assert incoming == "a\r\nb\nnew\nc\r\nd\n"


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_the_end_of_the_file_is_what_the_caller_sent(end: str) -> None:
    for was in ("a", "a\n", "a\n\n"):
        assert fit_to_page("a\nb" + end, was, was) == ("a\nb" + end, was)


def test_an_empty_front_matter_says_that_it_is_to_go() -> None:
    page = "---\nk: v\n---\n\n# T\n"
    assert fit_to_page("---\n---\n# T\n", page, page)[0] == "# T\n"
    assert fit_to_page("# T\n", page, page)[0] == page


@settings(max_examples=100)
@given(st.sampled_from(["", "\ufeff"]), st.text(alphabet="ab \n\r-#|"))
def test_what_was_read_and_sent_back_changes_nothing(bom: str, body: str) -> None:
    """A tool shows LF, no BOM and no front matter."""
    text = bom + body
    shown = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    incoming, base = fit_to_page(shown, text, text)
    if shown.strip() and not shown.startswith("---\n---") and not text.endswith("\n\r"):
        assert (incoming, base) == (text, text)


def test_content_that_begins_with_the_heading_replaces_the_section_whole() -> None:
    taken = as_document(cut(PAGE), "## A\n\nnew A\n\n### A2\n\nabout A2\n", path="a.md", section="A")
    assert taken == TakenContent(
        "section", PAGE.replace("about A\n\n### A1\n\nabout A1\n", "new A\n\n### A2\n\nabout A2\n"), "T > A"
    )


def test_a_subsection_alone_is_added_to_the_section_and_does_not_replace_it() -> None:
    new = "### A2\n\nsomething else\n"
    assert as_document(cut(PAGE), new, path="a.md", section="A") == TakenContent("snippet", new, "T > A")
    both = as_document(cut(PAGE), "### A1\n\nabout A1, too\n\n### A2\n\nabout A\n", path="a.md", section="A")
    assert both.form == "section"
    own = as_document(cut(PAGE), "### A\n\nsomething else\n", path="a.md", section="A")
    assert own.form == "section"


def test_a_subsection_made_like_that_of_its_section_is_added_to_it() -> None:
    page = f"# Benchmarks\n\n## Performance\n\n### Writing\n\n{TABLE}{ROWS.format(1)}"
    new = f"### Reading\n\n{TABLE}{ROWS.format(2)}"
    assert as_document(cut(page), new, path="a.md", section="Performance").form == "snippet"
    short = "# Process\n\n## Events\n\nThe process emits these events:\n"
    event = "### Loaded\n\nThe process emits these when it has loaded.\n"
    assert as_document(cut(short), event, path="a.md", section="Events").form == "snippet"
    both = f"{new}\n### Writing\n\n{TABLE}{ROWS.format(3)}"
    assert as_document(cut(page), both, path="a.md", section="Performance").form == "section"


def test_a_plus_before_a_sections_name_adds_to_it() -> None:
    for name in ("+ A", "+ T > A", "+ ## A"):
        assert as_document(cut(PAGE), "new A", path="a.md", section=name) == TakenContent("snippet", "new A", "T > A")
    with pytest.raises(NoSuchSection):
        as_document(cut(PAGE), "new", path="a.md", section="+ Nowhere")


def test_another_heading_of_its_level_is_a_new_name() -> None:
    taken = as_document(cut(PAGE), "## Z\n\nnew\n", path="a.md", section="A")
    assert taken.text == PAGE.replace("## A\n\nabout A\n\n### A1\n\nabout A1\n", "## Z\n\nnew\n")
    # Evidence is put where it was asked to be put.
    assert taken.section == "T > A"


def test_text_without_headings_replaces_the_sections_own_text() -> None:
    taken = as_document(cut(PAGE), "new A", path="a.md", section="T > A")
    assert taken.text == PAGE.replace("about A\n\n###", "new A\n\n###")


def test_text_with_subsections_replaces_all_below_the_heading() -> None:
    taken = as_document(cut(PAGE), "new A\n\n### A2\n\nabout A2", path="a.md", section="#a")
    assert taken.text == PAGE.replace("about A\n\n### A1\n\nabout A1\n", "new A\n\n### A2\n\nabout A2\n")


def test_the_last_section_an_empty_one_and_one_in_crlf() -> None:
    assert as_document(cut(PAGE), "new B", path="a.md", section="B").text == PAGE.replace("about B", "new B")
    assert (
        as_document(cut("# T\n\n## A\n## B\n"), "new", path="a.md", section="A").text == "# T\n\n## A\n\nnew\n\n## B\n"
    )
    assert (
        as_document(cut("# T\n\n## A\n\n## B\n"), "new", path="a.md", section="A").text
        == "# T\n\n## A\n\nnew\n\n## B\n"
    )
    assert as_document(cut("# T"), "new", path="a.md", section="T").text == "# T\n\nnew"
    windows = PAGE.replace("\n", "\r\n")
    assert as_document(cut(windows), "new\ntext", path="a.md", section="B").text == windows.replace(
        "about B", "new\r\ntext"
    )


def test_a_section_that_is_not_there_or_there_twice_is_said() -> None:
    with pytest.raises(NoSuchSection):
        as_document(cut(PAGE), "x", path="a.md", section="Nowhere")
    with pytest.raises(AmbiguousName):
        as_document(cut("# T\n\n## A\n\n# U\n\n## A\n"), "x", path="a.md", section="A")


@pytest.mark.parametrize(
    ("page", "content"),
    [
        ("# Hosts\n\n| host | cpu |\n|---|---|\n| a | 4 |\n| b | 8 |\n", "| host | cpu |\n|---|---|\n| c | 4 |\n"),
        (
            "# FAQ\n\n**How long is a restore?**\nTen minutes.\n\n**Who may?**\nAda.\n",
            "**How long is a restore?**\nFive minutes.\n",
        ),
    ],
)
def test_a_row_or_an_answer_of_a_short_page_is_not_taken_for_the_page_without_its_title(
    page: str, content: str
) -> None:
    """It removed the title and all other rows and answers."""
    assert as_document(cut(page), content, path="a.md").form in ("unclear", "snippet")


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("---\nk: w\n---\n\nanything\n", "unclear"),
        ("---\nk: w\n---\n", "unclear"),
        ("---\nk: w\n---\n\n# T\n\nrewritten\n", "document"),
        ("---\nk: w\n---\n\n# Other\n\nrewritten\n", "document"),
        ("---\nk: w\n---\n\nintro\n\n## A\n\nabout A\n\n## B\n\nabout B\n", "document"),
        ("# T\n\nrewritten\n", "document"),
        ("intro\n\n## A\n\nabout A\n\n## B\n\nabout B\n", "document"),
        ("about B, and more\n", "snippet"),
        ("## B\n\nabout B\n", "snippet"),
        ("", "snippet"),
    ],
)
def test_without_a_section_it_is_the_whole_document_only_where_that_is_plain(content: str, form: str) -> None:
    assert as_document(cut(PAGE), content, path="a.md") == TakenContent(form, content)  # type: ignore[arg-type]  # drawn from the table


OPENING = "---------\nname: Kay\n---------\n\n## Done\n\n"
STATEMENT = f"{OPENING}{'so much was done by me ' * 20}\n\n## Next\n\n{'more of it next year ' * 9}\n"


def test_a_text_from_the_first_block_of_a_page_to_its_last_section_is_the_page_however_short_it_is() -> None:
    """A real edit, kubernetes/community 9569b0a00e: a candidate shortened a statement to a third."""
    short = f"{OPENING}A lot. And then there was a conference for all of us.\n\n## Next\n\nThe same.\n"
    assert as_document(cut(STATEMENT), short, path="a.md").form == "document"
    assert as_document(cut(STATEMENT), short.partition("## Next")[0], path="a.md").form != "document"


TABLE = "| bytes | clients | target | writes | latency |\n| --- | --- | --- | --- | --- |\n"
ROWS = "| 64 | 1 | leader only | {0} | {0} |\n| 256 | 64 | leader only | {0} | {0} |\n| 256 | 256 | all servers | {0} | {0} |\n"


def test_a_section_made_like_another_of_a_short_page_may_not_be_the_page() -> None:
    """A real page, etcd-io/website 2.1 benchmarks: the table of one section has most of the words of all others."""
    page = f"---\ntitle: Benchmarks\n---\n\n## Machines\n\nOne disk each.\n\n## Performance\n\n### Writing\n\n{TABLE}{ROWS.format(1)}"
    section = f"### Reading\n\n{TABLE}{ROWS.format(2)}"
    assert as_document(cut(page), section, path="a.md").form == "unclear"
    assert (
        as_document(cut(page), page.partition("\n\n")[2].replace("Machines", "Hosts"), path="a.md").form == "document"
    )


def test_a_section_with_the_level_of_a_title_is_not_the_page_that_has_several() -> None:
    page = "# Install\n\nCopy it to the share.\n\n# Remove\n\nDelete it there.\n"
    assert as_document(cut(page), "# Upgrade\n\nStop the server before.\n", path="a.md").form == "snippet"
    assert as_document(cut(page), "# Install\n\nNothing else.\n", path="a.md").form == "document"
    assert as_document(cut(page), page.replace("Install", "Set up"), path="a.md").form == "document"


def test_a_section_with_the_name_of_its_page_may_not_be_the_page() -> None:
    """A real page, RocketChat/handbook cost centers: the title is also the name of a section."""
    page = "# Cost centers\n\n## Purpose\n\nA cost center is a department that costs are allocated to.\n"
    section = "## Cost centers\n\nPurchases of a team are booked on that of its department, and so are salaries.\n"
    assert as_document(cut(page), section, path="a.md").form == "unclear"
    assert as_document(cut(page), page.replace("# ", "## "), path="a.md").form == "unclear"
    assert as_document(cut(page.replace("# ", "## ")), "# Cost centers\n\nRewritten.\n", path="a.md").form == "document"


def test_headings_for_a_page_without_any_may_be_the_page_or_be_added_to_it() -> None:
    """A real edit, sourcegraph/handbook 065c1719fb: a placeholder gave way to the page."""
    page = "test markdown for Tommy and Kendrick hello!\n"
    sent = "### Recognition of revenue\n\nThere are four buckets.\n"
    assert as_document(cut(page), sent, path="a.md").form == "unclear"
    assert as_document(cut(page), "## Bins\n", path="a.md").form == "snippet"


@pytest.mark.parametrize("content", ["about B, and more\n", "## B\n\nabout B\n", "x"])
def test_a_caller_may_say_that_it_is_the_whole_page(content: str) -> None:
    assert as_document(cut(PAGE), content, path="a.md", section="*") == TakenContent("document", content)


def test_whatever_is_sent_to_an_empty_page_is_the_page() -> None:
    assert as_document(cut(""), "anything\n", path="a.md").form == "document"


LONG = "# Log\n\n" + "".join(
    f"Entry {n}: pump {n} was checked by whoever was on duty, and ran without noise.\n\n" for n in range(80)
)


@pytest.mark.parametrize(
    "page", [LONG, f"---\nk: v\n---\n\n{LONG}", LONG.replace("Entry 40", "---\n\n## Later\n\nEntry 40")]
)
@pytest.mark.parametrize("shown", [7, 1_200, 3_000])
def test_the_beginning_of_a_long_page_is_not_taken_for_the_page(page: str, shown: int) -> None:
    """`kb_read` shows the beginning of a long page; sent back with a change it would remove everything else."""
    body = page.removeprefix("---\nk: v\n---\n\n")
    for sent in (
        body[:shown],
        page[: len(page) - len(body) + shown],
        f"{body[:shown]}\n\nEntry 99: new.\n",
    ):
        assert as_document(cut(page), sent, path="a.md").form == "unclear"
        assert as_document(cut(page), sent, path="a.md", section="*").form == "document"


@pytest.mark.parametrize(
    "sent",
    [
        LONG.replace("checked", "inspected"),
        LONG[: len(LONG) // 3] + LONG[-400:],
        LONG[: len(LONG) * 3 // 4],
        "# Log\n\n" + "".join(f"Eintrag {n}: Pumpe {n} wurde geprüft und lief ohne Geräusch.\n\n" for n in range(80)),
    ],
    ids=["edited", "without its middle", "most of it", "translated"],
)
def test_what_has_an_end_or_is_long_enough_is_the_page(sent: str) -> None:
    assert as_document(cut(LONG), sent, path="a.md").form == "document"


def test_of_a_short_page_nothing_was_left_out_when_it_was_read() -> None:
    page = LONG[:3_000]
    assert as_document(cut(page), page[:500], path="a.md").form == "document"
