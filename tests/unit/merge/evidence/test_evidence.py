from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from knowledge.errors import NoSuchSection
from knowledge.merge.claims.statements import keeps_words
from knowledge.merge.document.units import cut, split_lines, units
from knowledge.merge.model import AnswerWord, StatementAnswer, unit_digest
from tests.unit.merge.evidence.weighed_plans import CHAT, CODE, LONG_AGO, NOW, PAGE, added, weighed, words

# What the page says already


@pytest.mark.parametrize(
    "said",
    [
        "An upload may be 32 MiB at most.",
        "an upload may be **32 MiB** at most",
        "- An upload may be 32768 KiB at most.",
        "## Limits\n\nAn upload may be 32 MiB at most.\n",
        "Every file is checked for viruses.",
        "| plan | quota |\n|---|---|\n| team | 50 GB |\n",
        "```sh\nforge init\nforge serve\n```\n",
        "---\ntags: [limits]\n---\n",
        "Run this first:\n\n```sh\nforge init\nforge serve\n```\n",
    ],
)
def test_what_the_page_says_already_is_not_written_twice(said: str) -> None:
    plan = weighed(said)
    assert set(words(plan)) == {"unchanged"}
    assert plan.text == PAGE


def test_what_is_said_already_corroborates_if_the_server_verified_its_source() -> None:
    plan = weighed("An upload may be 32 MiB at most.", verified=["code:src/limits.py"])
    (verdict,) = plan.verdicts
    assert verdict.existing is not None
    assert verdict.existing.corroboration == 0.5
    (origin,) = [origin for origin in plan.origins if origin.corroborated_by]
    assert origin.corroborated_by == ("code:src/limits.py",)
    assert origin.source == CHAT


def test_a_source_that_the_server_could_not_verify_corroborates_nothing() -> None:
    plan = weighed("An upload may be 32 MiB at most.", "url:https://example.org")
    assert not any(origin.corroborated_by for origin in plan.origins)


def test_the_page_itself_is_no_witness_of_what_it_says() -> None:
    plan = weighed("An upload may be 32 MiB at most.", verified=["kb:guides/uploads"])
    assert not any(origin.corroborated_by for origin in plan.origins)


def test_the_same_source_saying_it_again_renews_it() -> None:
    plan = weighed("An upload may be 32 MiB at most.", "zulip:ops/limits/99")
    renewed = [origin for origin in plan.origins if origin.observed_at == NOW]
    assert len(renewed) == 1
    assert not renewed[0].corroborated_by


# What another lineage says otherwise


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("Retries: 5", "number"),
        ("An upload may be 64 MiB at most.", "number"),
        ("Every file is not checked for viruses.", "negation"),
        ("| plan | quota |\n|---|---|\n| free | 2 GB |\n", "cell"),
        ("---\ntitle: Downloads\n---\n", "value"),
    ],
)
def test_what_another_lineage_says_otherwise_is_flagged_and_not_written(content: str, kind: str) -> None:
    """However strong the new claim is."""
    plan = weighed(content, "official:handbook")
    assert words(plan) == ["flag"]
    assert plan.text == PAGE
    (found,) = plan.contradictions
    assert found.kind == kind
    assert (found.existing.source, found.new.source) == (CHAT, "official:handbook")
    assert found.existing.path == found.new.path == "guides/uploads.md"


def test_the_handbook_s_example_is_flagged_with_both_numbers() -> None:
    """kb/concepts/confidence.md."""
    (verdict,) = weighed("Retries: 5", CODE).verdicts
    assert verdict.verdict == "flag"
    assert verdict.new is not None
    assert verdict.existing is not None
    assert verdict.new.confidence == pytest.approx(0.76)
    assert verdict.existing.confidence == pytest.approx(0.22)
    assert "0.76 (recency 1.00, authority 0.90, corroboration 0.00)" in verdict.reason
    assert "0.22 (recency 0.25, authority 0.30, corroboration 0.00)" in verdict.reason


def test_the_other_blocks_of_a_flagged_call_are_written() -> None:
    plan = weighed("Retries: 5\n\nUploads of a closed account are removed from the object store.\n")
    assert sorted(words(plan)) == ["flag", "integrate"]
    assert added(plan) == ["Uploads of a closed account are removed from the object store."]


def test_what_nobody_knows_the_source_of_is_another_lineage() -> None:
    plan = weighed("Retries: 5", "unknown", origins=[None] * len(units(cut(PAGE))))
    assert words(plan) == ["flag"]


def test_a_heading_that_is_the_subject_is_read_with_what_stands_below_it() -> None:
    page = "# Weights\n\n## Recency\n\nHalves every 180 days.\n"
    assert words(weighed("Recency halves every 180 days.", page=page)) == ["unchanged"]
    assert words(weighed("Recency halves every 90 days.", page=page)) == ["flag"]


# One lineage


def test_a_lineage_that_corrects_itself_later_is_an_update() -> None:
    """kb/concepts/contradictions.md."""
    plan = weighed("Retries: 5", "zulip:ops/limits/2")
    assert words(plan) == ["update"]
    assert plan.text == PAGE.replace("Retries: 3", "Retries: 5")
    assert not plan.contradictions


def test_a_row_under_another_heading_corrects_no_table_elsewhere() -> None:
    row = "| plan | quota |\n|---|---|\n| free | 2 GB |\n"
    assert words(weighed(row, "zulip:ops/limits/2")) == ["update"]
    assert words(weighed(f"## Plans of partners\n\n{row}", "zulip:ops/limits/2")) == ["flag"]


def test_what_a_lineage_said_before_what_it_says_now_is_retained() -> None:
    plan = weighed("Retries: 5", "zulip:ops/limits/0", observed_at=LONG_AGO - timedelta(days=1))
    assert words(plan) == ["retain"]
    assert plan.text == PAGE


def test_a_correction_changes_its_sentence_and_leaves_the_others() -> None:
    page = "# A\n\nThe cache holds 100 pages. It is emptied at night.\n"
    plan = weighed("The cache holds 200 pages.", "zulip:ops/limits/2", page)
    assert plan.text == page.replace("100", "200")


# Stronger and weaker


def test_what_says_more_and_weighs_as_much_takes_the_place() -> None:
    new = "An upload may be 32 MiB at most, larger ones are refused with status 413."
    plan = weighed(new)
    assert words(plan) == ["update"]
    assert plan.text == PAGE.replace("An upload may be 32 MiB at most.", new)


def test_a_tie_goes_to_the_newer() -> None:
    new = "An upload may be 32 MiB at most, larger ones are refused with status 413."
    plan = weighed(new, "wiki:b", held_by="wiki:a", held_since=NOW)
    (verdict,) = plan.verdicts
    assert verdict.verdict == "update"
    assert verdict.new == verdict.existing


def test_what_says_more_and_weighs_less_is_retained_with_a_way_to_a_person() -> None:
    new = "An upload may be 32 MiB at most, larger ones are refused with status 413."
    plan = weighed(new, "zulip:a/b/1", held_by="decision:7", held_since=NOW)
    (verdict,) = plan.verdicts
    assert verdict.verdict == "retain"
    assert plan.text == PAGE
    assert "ask the person" in verdict.reason
    assert "0.52" in verdict.reason
    assert "0.78" in verdict.reason


def test_a_caller_s_claim_of_little_authority_counts() -> None:
    new = "An upload may be 32 MiB at most, larger ones are refused with status 413."
    assert words(weighed(new, authority=0.0, held_by="wiki:a", held_since=NOW)) == ["retain"]


IMPORTER = "The importer reads CSV files from the share in Oslo."
NEWER = "The importer reads CSV files and JSON files from a share."


def test_another_version_of_a_statement_is_asked_about_before_anything_is_written() -> None:
    page = f"# A\n\n{IMPORTER}\n"
    plan = weighed(NEWER, page=page)
    assert words(plan) == ["ask"]
    assert plan.text == page
    (question,) = plan.questions
    assert (question.existing, question.new, question.section, question.source) == (IMPORTER, NEWER, "A", CHAT)


@pytest.mark.parametrize(
    ("answer", "verdict", "after"),
    [
        ("same", "unchanged", [IMPORTER]),
        ("both", "integrate", [IMPORTER, NEWER]),
        ("contradicts", "flag", [IMPORTER]),
        ("replaces", "flag", [IMPORTER]),
    ],
)
def test_the_host_s_answer_settles_it_but_removes_no_text_of_another_source(
    answer: AnswerWord, verdict: str, after: list[str]
) -> None:
    page = f"# A\n\n{IMPORTER}\n"
    plan = weighed(NEWER, page=page, answers=(StatementAnswer(IMPORTER, NEWER, answer),))
    assert words(plan) == [verdict]
    assert [line for line in plan.text.split("\n")[1:] if line] == after
    assert [one.kind for one in plan.contradictions] == (["judged"] if verdict == "flag" else [])


@pytest.mark.parametrize(
    ("answer", "after"),
    [
        (None, ["Ticket 4711 is done."]),
        ("both", ["Ticket 4711 is done.", "Ticket 4712 is done."]),
        ("replaces", ["Ticket 4712 is done."]),
        ("same", ["Ticket 4711 is done."]),
    ],
)
def test_a_source_that_speaks_of_the_next_of_many_is_asked_before_it_replaces_the_last(
    answer: AnswerWord | None, after: list[str]
) -> None:
    """It was taken for a correction, so only the last ticket was left on the page."""
    old, new = "Ticket 4711 is done.", "Ticket 4712 is done."
    answers = () if answer is None else (StatementAnswer(old, new, answer),)
    plan = weighed(new, "zulip:ops/limits/2", f"# A\n\n{old}\n", answers=answers)
    assert [line for line in plan.text.split("\n")[1:] if line] == after
    assert [(one.existing, one.new) for one in plan.questions] == ([] if answer else [(old, new)])


@pytest.mark.parametrize("source", ["zulip:ops/limits/2", "code:a.py", "user"])
@pytest.mark.parametrize(
    "form",
    [
        "Entry number {}",
        "Batch {} took 30 s",
        "Ticket 47{} is done.",
        "\u0428\u0430\u0433 {} \u0433\u043e\u0442\u043e\u0432.",
    ],
)
def test_the_next_of_statements_that_count_up_is_asked_about(form: str, source: str) -> None:
    """It contradicted the first, or replaced it."""
    page = f"# List\n\n- {form.format(10)}\n- {form.format(11)}\n"
    new = form.format(12)
    plan = weighed(f"- {new}\n", source, page, section="List")
    assert (plan.text, plan.contradictions) == (page, ())
    (question,) = plan.questions
    texts: dict[AnswerWord, str] = {"both": f"{page}- {new}\n", "same": page, "contradicts": page}
    for answer, text in texts.items():
        judged = (StatementAnswer(question.existing, question.new, answer),)
        again = weighed(f"- {new}\n", source, page, section="List", answers=judged, held_by="wiki:limits")
        assert (again.text, len(again.contradictions)) == (text, answer == "contradicts")


@pytest.mark.parametrize(
    "there", ["Timeout 30", "Timeout 39", "Timeout 30\n- Timeout 35", "Timeout 39\n- Timeout 38\n- Timeout 41"]
)
def test_a_figure_to_which_the_section_does_not_count_up_is_still_a_contradiction(there: str) -> None:
    plan = weighed("- Timeout 40\n", page=f"# List\n\n- {there}\n- Retries 3\n", section="List")
    assert words(plan) == ["flag"]


def test_a_source_still_corrects_a_figure_of_its_own() -> None:
    plan = weighed("The limit is 300.", "zulip:ops/limits/2", "# A\n\nThe limit is 200.\n")
    assert plan.text == "# A\n\nThe limit is 300.\n"


def test_a_source_replaces_what_it_said_itself_if_the_host_says_that_it_does() -> None:
    page = f"# A\n\n{IMPORTER}\n"
    plan = weighed(NEWER, "zulip:ops/limits/2", page, answers=(StatementAnswer(IMPORTER, NEWER, "replaces"),))
    assert plan.text == f"# A\n\n{NEWER}\n"


VENDORS = """# Vendors

- Hazel Freight: approved vendor of the northern depots since spring
- Quillworks Print: approved vendor of the northern depots since spring
- Tarn Security: approved vendor of the northern depots since spring
"""


def test_an_item_after_the_pattern_of_a_list_is_new_unless_it_is_almost_one_of_them() -> None:
    sibling = "- Pebble Catering: approved vendor of the northern depots since spring"
    assert added(weighed(sibling, page=VENDORS, section="Vendors"), VENDORS) == [sibling]
    renamed = "- Tarn Guards: approved vendor of the northern depots since spring"
    (question,) = weighed(renamed, page=VENDORS, section="Vendors").questions
    assert question.existing == "Tarn Security: approved vendor of the northern depots since spring"


def test_text_that_the_content_itself_repeats_is_not_what_it_may_be_a_version_of() -> None:
    page = "# Depot\n\n- The gate opens at dawn for the lorries of the depot.\n"
    new = "- The yard is lit at dawn for the lorries of the depot.\n"
    assert words(weighed(new, page=page)) == ["ask"]
    kept = weighed(f"- The gate opens at dawn for the lorries of the depot.\n{new}", page=page)
    assert words(kept) == ["unchanged", "integrate"]


def test_text_that_another_sentence_sent_is_more_like_is_not_what_it_may_be_a_version_of() -> None:
    page = "# Depot\n\nThe first lorry of the day must carry an empty crate.\n"
    new = "The first lorry of the day must carry one empty crate. The cook of the day must carry a crate of bread."
    (question,) = weighed(new, page=page).questions
    assert question.new == "The first lorry of the day must carry one empty crate."


def test_more_than_one_sentence_of_a_longer_text_is_not_put_beside_it_but_asked_about() -> None:
    """Beside it the page would say the same twice; in its place the rest of that text would be lost."""
    old, new = "The scheduler logs every job to a file.", "The scheduler logs every job to a file, since version 3.2."
    page = f"# Scheduler\n\n{old} It never rotates that file.\n"
    plan = weighed(new, page=page)
    assert (words(plan), plan.text) == (["ask"], page)
    assert [(one.existing, one.new) for one in plan.questions] == [(old, new)]
    both = weighed(new, page=page, answers=(StatementAnswer(old, new, "both"),))
    assert added(both, page) == [new]
    assert words(weighed(f"{new} It never rotates that file.", page=page)) == ["update"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Real pages, etcd-io/website and helm/helm-www: another command, and another step of the same list.
        ("This command watches on key `foo`:", "This command watches on a range key from `foo` to `foo9`:"),
        (
            "6. The library waits until the hook is ready.",
            "8. The library waits until the hook is ready (except for CRDs).",
        ),
    ],
)
def test_a_text_about_what_follows_it_and_a_step_with_another_number_are_not_replaced(old: str, new: str) -> None:
    page = f"# Commands\n\n{old}\n\n```sh\nwatch foo\n```\n"
    plan = weighed(new, page=page, section="Commands")
    assert (words(plan), plan.text) == (["ask"], page)
    assert len(plan.questions) == 1
    same = weighed(new.replace("8.", "6."), page=page.replace("`foo`:", "`foo`."), section="Commands")
    assert words(same) == ["update"]


def test_a_text_without_a_place_may_be_a_version_of_a_statement_of_another_section_than_its_likeliest() -> None:
    old = "The archive is copied on Friday."
    page = (
        f"# Archive\n\n## Copies\n\n{old}\n\n## Robot\n\nA robot carries tapes to shelves.\n\nThe vault holds tapes for ten years.\n\n"
        "Operators call the vendor when a robot drops tapes.\n\nThe vendor repairs the robot and its shelves within a day.\n\n"
        "## Sites\n\nAnother site is planned for the spring.\n\n## Duty\n\nEverybody has a phone at night.\n"
    )
    plan = weighed(
        "The archive is copied on Friday to tapes in the vault by a robot, which the vendor repairs.", page=page
    )
    assert (words(plan), plan.text) == (["ask"], page)
    assert [one.existing for one in plan.questions] == [old]


@pytest.mark.parametrize("section", ["Health", None])
def test_an_empty_field_is_filled_in(section: str | None) -> None:
    """A real page, kubernetes/community annual reports."""
    page = "# Report\n\n## Health\n\n- Primary mailing list member count:\n- Other lists are not counted here.\n"
    plan = weighed("- Primary mailing list member count: 462\n", page=page, section=section)
    assert (words(plan), plan.text) == (["update"], page.replace("count:", "count: 462"))


def test_a_text_without_a_place_replaces_nothing_although_it_has_all_words_of_a_text() -> None:
    """A real page, 18F/handbook: two examples of the same command."""
    old = "Will result in this image being displayed."
    page = (
        f"# Images\n\n## With text\n\nThe command takes the name and the alt text.\n\n## Without\n\n{old}\n\n"
        "## Sizes\n\nWide images are scaled.\n"
    )
    new = "The example above will result in this image being displayed to everybody."
    plan = weighed(new, page=page)
    assert old in plan.text
    assert words(plan) == ["ask"]
    assert words(weighed(new, page=page, section="Without")) == ["update"]


@pytest.mark.parametrize(
    ("old", "part"),
    [
        (
            "If the disk is nearly full and nobody answers the page, the old logs must be removed.",
            "The old logs must be removed.",
        ),
        (
            "The old logs are removed, unless the disk of the archive is full or the audit asks for them.",
            "The old logs are removed.",
        ),
        (
            "On Linux hosts in the first region the old logs are removed by a timer.",
            "The old logs are removed by a timer.",
        ),
    ],
)
def test_a_part_of_a_statement_without_what_narrows_it_is_neither_said_already_nor_put_beside_it(
    old: str, part: str
) -> None:
    page = f"# Logs\n\n{old}\n"
    plan = weighed(part, page=page, section="Logs")
    assert plan.text == page
    assert [(one.existing, one.new) for one in plan.questions] == [(old, part)]


def test_of_the_same_text_in_two_sections_that_of_the_named_one_is_extended() -> None:
    old = "- The duty team points the name at the spare host."
    page = f"# Failover\n\n## Live\n\n{old}\n\n## Trial\n\n{old}\n"
    plan = weighed(f"{old[:-1]} within 60 seconds.\n", page=page, section="Trial")
    assert words(plan) == ["update"]
    assert plan.text == f"{page[:-2]} within 60 seconds.\n"


def test_a_section_is_found_right_below_the_heading_above_it() -> None:
    page = "# Depot\n\n## Around it\n### Gates\n\nTwo face north.\n\n### Fences\n\nAll are green.\n"
    plan = weighed("The hinges are oiled in May.\n", page=page, section="Gates")
    assert plan.text == page.replace("north.\n", "north.\n\nThe hinges are oiled in May.\n")


def test_an_answer_hides_no_contradiction_that_a_rule_finds() -> None:
    answers = (StatementAnswer("Retries: 3", "Retries: 5", "both"), StatementAnswer("Retries: 3", "Retries: 5", "same"))
    assert words(weighed("Retries: 5", answers=answers)) == ["flag"]


def test_only_the_sentences_that_are_new_are_written_and_beside_the_others() -> None:
    plan = weighed("Every file is checked for viruses. Infected files are moved to quarantine.")
    assert added(plan) == ["Infected files are moved to quarantine."]
    lines = plan.text.split("\n")
    assert lines.index("Infected files are moved to quarantine.") < lines.index("## Limits")


# Places


def test_an_item_joins_the_list_of_the_section_that_it_names() -> None:
    plan = weighed("## Limits\n\n* A file name may have 255 characters.\n")
    assert words(plan) == ["integrate"]
    assert "- A person may upload 100 files a day.\n- A file name may have 255 characters.\n\n## Plans" in plan.text


def test_an_item_joins_a_sorted_list_where_it_belongs() -> None:
    page = "## Fruit\n\n- apple\n- banana\n- cherry\n"
    plan = weighed("## Fruit\n\n- blueberry\n- avocado\n", page=page)
    assert plan.text == "## Fruit\n\n- apple\n- avocado\n- banana\n- blueberry\n- cherry\n"


def test_an_item_joins_a_numbered_list_with_the_next_number() -> None:
    page = "## Steps\n\n1. Write the page.\n2. Read the page.\n"
    plan = weighed("## Steps\n\n- Publish it on the intranet.\n", page=page)
    assert plan.text == page + "3. Publish it on the intranet.\n"


def test_a_row_joins_the_table_with_its_columns() -> None:
    plan = weighed("| quota | plan |\n|---|---|\n| 1 TB | gold |\n")
    assert "| team | 50 GB | 10 EUR |\n| gold | 1 TB |  |\n" in plan.text


def test_an_empty_cell_is_filled() -> None:
    plan = weighed("| plan | price |\n|---|---|\n| free | 0 EUR |\n")
    assert plan.text == PAGE.replace("| free | 1 GB | |", "| free | 1 GB | 0 EUR |")
    assert "fills" in plan.verdicts[0].reason


def test_a_snippet_with_its_own_heading_becomes_a_section_before_what_closes_the_page() -> None:
    plan = weighed("# Backups\n\nCopies are made at night.\n\n## Restore\n\nAsk the operators.\n")
    assert (
        "\n## Backups\n\nCopies are made at night.\n\n### Restore\n\nAsk the operators.\n\n## See also\n" in plan.text
    )
    assert set(words(plan)) == {"integrate"}


def test_text_that_could_go_anywhere_is_not_written_and_three_places_are_offered() -> None:
    plan = weighed("The moon is made of cheese.")
    assert words(plan) == ["ask"]
    assert plan.text == PAGE
    assert len(plan.places) == 3
    for place in plan.places:
        named = weighed("The moon is made of cheese.", section=place.section)
        assert words(named) == ["integrate"]
        assert named.verdicts[0].section == place.section


def test_a_heading_that_the_page_has_twice_is_asked_about_and_then_the_chosen_section_is_meant() -> None:
    page = "# T\n\n## Staging\n\n### Limits\n\nTen calls.\n\n## Production\n\n### Limits\n\nFive calls.\n"
    content = "### Limits\n\nA night watch may call again.\n"
    plan = weighed(content, page=page)
    assert words(plan) == ["ask"]
    assert {place.section for place in plan.places} == {"T > Staging > Limits", "T > Production > Limits"}
    chosen = weighed(content, page=page, section="T > Production > Limits")
    assert chosen.text == page + "\nA night watch may call again.\n"


def test_a_text_of_several_parts_is_written_where_it_is_sure_and_asked_about_where_it_is_not() -> None:
    plan = weighed("## Limits\n\nFolders are not limited.\n\n## Plans\n\nA quota may grow.\n", page=PAGE)
    assert words(plan) == ["integrate", "integrate"]
    plan = weighed("Virus checks of uploads in eu-west take a minute.\n\nThe moon is made of cheese.\n")
    assert sorted(words(plan)) == ["ask", "integrate"]
    assert "cheese" not in plan.text


def test_a_dated_note_is_placed_where_its_content_belongs_and_said_so() -> None:
    for note in (
        "## 2026-11-21\n\nVirus checks of uploads in eu-west take a minute per file.\n",
        "## Update 2026-11-21\n\nVirus checks of uploads in eu-west take a minute per file.\n",
        "Update 2026-11-21: Virus checks of uploads in eu-west take a minute per file.\n",
        "- 2026-11-21: An upload of a person may take a minute at most.\n",
    ):
        plan = weighed(note)
        assert words(plan) == ["integrate"]
        assert "2026" not in plan.text
        assert plan.text.index("a minute") < plan.text.index("## Plans" if note.startswith("-") else "## Limits")
        assert plan.note is not None
        assert "2026-11-21" in plan.note
        assert "2026-11-21" in plan.verdicts[0].reason


def test_short_lines_under_a_heading_mean_what_they_say_there_only() -> None:
    page = "# T\n\n## Staging\n\n- timeout: 30\n\n## Production\n\n- timeout: 60\n"
    assert words(weighed("## Production\n\n- timeout: 60\n", page=page)) == ["unchanged"]
    (found,) = weighed("## Production\n\n- timeout: 30\n", page=page).contradictions
    assert found.existing.section == "T > Production"


def test_sections_with_the_same_keys_speak_of_different_things() -> None:
    page = "# T\n\n## Alpha\n\n- cpus: 2\n- disk: 10\n- port: 80\n\n## Beta\n\n- cpus: 4\n- disk: 20\n"
    assert words(weighed("## Beta\n\n- port: 80\n", page=page)) == ["integrate"]
    assert words(weighed("## Beta\n\n- port: 81\n", page=page)) == ["integrate"]


def test_a_block_where_the_page_has_none_of_its_kind_is_new() -> None:
    plan = weighed("```\nforge init\n```\n", page="# Setup\n\nRun this first.\n", section="Setup")
    assert plan.text == "# Setup\n\nRun this first.\n\n```\nforge init\n```\n"
    assert [verdict.reason.partition("; ")[2] for verdict in plan.verdicts] == ['placed under "Setup", as named']


def test_a_section_that_was_asked_for_is_kept_to() -> None:
    plan = weighed("A quota is counted anew on the first of a month.", section="Plans")
    assert plan.form == "section"
    assert plan.text.index("counted anew") > plan.text.index("| team")
    assert plan.text.index("counted anew") < plan.text.index("## Setup")
    with pytest.raises(NoSuchSection):
        weighed("Text.", section="Nowhere")


def test_a_whole_page_as_evidence_changes_only_what_it_adds() -> None:
    new = PAGE.replace("## Plans", "Folders are not limited.\n\n## Plans").replace(
        "- Retries: 3", "- Retries: 3\n- Workers run in two zones."
    )
    plan = weighed(new)
    assert added(plan) == ["- Workers run in two zones.", "Folders are not limited."]


def test_what_follows_a_known_block_in_the_content_follows_it_on_the_page() -> None:
    plan = weighed("Run this first:\n\nNobody needs to be root for it.\n")
    assert plan.text.index("forge serve") < plan.text.index("Nobody needs") < plan.text.index("Then open")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("forge init\nforge serve", "forge serve\nforge init"),
        ("if ready:\n    stop()\nstart()", "if ready:\n    stop()\n    start()"),
        ("stop\nwait\nstart", "stop\nstart"),
    ],
    ids=["order", "indent", "a step left out"],
)
def test_code_is_said_already_only_if_it_has_the_same_lines_in_the_same_order(old: str, new: str) -> None:
    """It was compared as a set of lines without their indents."""
    page = f"# Start\n\n```sh\n{old}\n```\n"
    plan = weighed(f"```sh\n{new}\n```\n", page=page)
    assert "unchanged" not in words(plan)
    assert plan.text.startswith(page.rstrip())
    lines = old.split("\n")
    assert words(weighed("```sh\n" + "\n".join(lines[:2]) + "\n```\n", page=page)) == ["unchanged"]


ENDPOINT = """```python
reply = get("https://api.example.org/v1/projects")
reply.raise_for_status()
print(reply.json())
```
"""


@pytest.mark.parametrize("authority", [0.9, 0.1], ids=["stronger", "weaker"])
def test_whether_code_that_is_nearly_the_same_is_another_version_is_asked(authority: float) -> None:
    """A weaker source's block was held back without a question; a stronger source's was put beside the old one."""
    page = f"# API\n\n{ENDPOINT}"
    moved = ENDPOINT.replace("v1", "v2")
    plan = weighed(moved, page=page, held_by="user", authority=authority)
    assert (words(plan), plan.text) == (["ask"], page)
    (asked,) = plan.questions
    assert (asked.existing, asked.new) == (
        'reply = get("https://api.example.org/v1/projects")',
        'reply = get("https://api.example.org/v2/projects")',
    )
    answers: Mapping[AnswerWord, str] = {
        "same": "unchanged",
        "both": "integrate",
        "replaces": "flag",
        "contradicts": "flag",
    }
    for word, verdict in answers.items():
        said = (StatementAnswer(asked.existing, asked.new, word),)
        plan = weighed(moved, page=page, held_by="user", authority=authority, answers=said)
        assert words(plan) == [verdict]
        assert plan.text == (f"{page}\n{moved}" if word == "both" else page)


def test_a_question_about_a_line_that_one_block_lacks_shows_the_line_beside_it() -> None:
    page = f"# API\n\n{ENDPOINT}"
    (asked,) = weighed(ENDPOINT.replace("reply.raise_for_status()\n", ""), page=page).questions
    assert asked.existing.split("\n")[1:] == ["reply.raise_for_status()"]
    assert asked.existing.startswith(asked.new)


def test_code_of_one_line_is_compared_by_its_words() -> None:
    """Only lines counted, and fences with them: `v2` in a one-line command was another example, any two commands were alike."""
    page = "# Setup\n\n```sh\ncurl https://api.example.org/v1/projects\n```\n"
    assert words(weighed("# Setup\n\n```sh\ncurl https://api.example.org/v2/projects\n```\n", page=page)) == ["ask"]
    assert words(weighed("# Setup\n\n```sh\nforge serve --port 80\n```\n", page=page)) == ["integrate"]


def test_code_in_another_language_replaces_none() -> None:
    """An example in TypeScript with one more line took the place of the one in JavaScript."""
    page = f"# API\n\n{ENDPOINT}"
    more = ENDPOINT.replace("print", "log(reply)\nprint")
    assert words(weighed(more, page=page)) == ["update"]
    assert words(weighed(more.replace("```python", "```py3"), page=page)) == ["ask"]


def test_code_with_an_introduction_of_its_own_is_another_example() -> None:
    page = f"# API\n\nThis lists the projects:\n\n{ENDPOINT}"
    users = ENDPOINT.replace("projects", "users")
    assert words(weighed(f"# API\n\n{users}", page=page)) == ["ask"]
    plan = weighed(f"# API\n\nUsers come from another address:\n\n{users}", page=page)
    assert plan.text == f"{page}\nUsers come from another address:\n\n{users}"


def test_code_of_another_section_is_no_version() -> None:
    page = f"# API\n\n## Projects\n\n{ENDPOINT}\n## Users\n\nThey sign in.\n"
    plan = weighed(f"## Users\n\n{ENDPOINT.replace('projects', 'users')}", page=page)
    assert words(plan) == ["integrate"]


PRICES = (
    "# Plans\n\n| plan | region | price |\n|---|---|---|\n| pro | EU | 10 |\n| pro | US | 12 |\n| free | EU | 0 |\n"
)


@pytest.mark.parametrize(
    ("row", "verdict", "said"),
    [
        ("pro | 20", "retain", "the page has several rows for 'pro'; send yours with its 'region'"),
        ("pro | 12", "unchanged", ""),
        ("free | 1", "flag", "the existing text says '0', the new text '1'"),
        ("team | 5", "integrate", ""),
    ],
)
def test_a_row_without_a_column_of_its_key_is_compared_by_the_rest_of_the_key(
    row: str, verdict: str, said: str
) -> None:
    """It was added as a second row for its key."""
    plan = weighed(f"| plan | price |\n|---|---|\n| {row} |\n", page=PRICES)
    (found,) = plan.verdicts
    assert (found.verdict, said in found.reason) == (verdict, True)
    assert (plan.text == PRICES) is (verdict != "integrate")


def test_of_several_tables_with_the_same_columns_the_one_that_has_the_row_is_meant() -> None:
    """The row was added as a new table below the one that it contradicts."""
    head = "| option | default |\n|---|---|\n"
    page = f"# Chart\n\n{head}| image | v1 |\n\nOf the toolbox:\n\n{head}| shell | bash |\n"
    plan = weighed(f"# Chart\n\n{head}| image | v2 |\n", page=page)
    assert (words(plan), plan.text) == (["flag"], page)
    plan = weighed(f"# Chart\n\n{head}| shell | bash |\n| user | root |\n", page=page)
    assert (words(plan), plan.text) == (["unchanged", "retain"], page)
    assert "several tables have these columns; send the row of 'user'" in plan.verdicts[1].reason
    plan = weighed(f"# Chart\n\n{head}| user | root |\n", page=page)
    assert (words(plan), plan.text) == (["integrate"], f"{page}\n{head}| user | root |\n")


def test_the_rows_of_a_table_without_names_for_its_columns_are_compared() -> None:
    head = "| | |\n|---|---|\n"
    page = f"# Flux\n\n{head}| status | incubating |\n| licence | MIT |\n"
    plan = weighed(f"# Flux\n\n{head}| status | graduated |\n", page=page)
    assert (words(plan), plan.text) == (["flag"], page)


def test_of_two_rows_whose_keys_differ_in_case_the_one_as_written_is_meant() -> None:
    page = "# Words\n\n| word | meaning |\n|---|---|\n| Free | a plan |\n| free | without price |\n"
    plan = weighed("| word | meaning |\n|---|---|\n| free | without any price |\n", page=page)
    assert "without price" in plan.verdicts[0].reason or plan.verdicts[0].verdict == "update"


def test_a_block_keeps_a_line_that_it_has_twice() -> None:
    page = "# Start\n\n```sh\nretry\nsleep\nretry\n```\n"
    plan = weighed("```sh\nretry\nsleep\nstop\n```\n", page=page)
    assert plan.text.startswith(page.rstrip())


@pytest.mark.parametrize(
    ("old", "new"),
    [("-f", "-F"), ("max_size", "MAX_SIZE"), ("[setup](a.md)", "[setup](b.md)"), ("~~yes~~", "yes"), ("on", "on?")],
)
def test_a_cell_and_a_key_are_said_already_only_as_they_are_written(old: str, new: str) -> None:
    page = f"---\nflag: {old}\n---\n# Flags\n\n| what | flag |\n|---|---|\n| force | {old} |\n"
    plan = weighed(f"| what | flag |\n|---|---|\n| force | {new} |\n", page=page)
    assert (words(plan), plan.text) == (["flag"], page)
    plan = weighed(f"---\nflag: {new}\n---\n", page=page)
    assert "unchanged" not in words(plan)
    assert plan.text == page


def test_what_came_together_stays_together_and_in_order() -> None:
    plan = weighed("Run this first:\n\nNobody needs to be root for it.\n\nZebras may watch.\n\nLions too.\n")
    lines = [line for line in plan.text.split("\n") if line]
    at = lines.index("Nobody needs to be root for it.")
    assert lines[at : at + 4] == [
        "Nobody needs to be root for it.",
        "Zebras may watch.",
        "Lions too.",
        "Then open the page in a browser.",
    ]


# Front matter


def test_a_tag_is_added_to_the_list_that_there_is() -> None:
    plan = weighed("---\ntags: [limits, quota]\nowner: anna\n---\n")
    assert plan.text == PAGE.replace("[storage, limits]", "[storage, limits, quota]\nowner: anna")


@pytest.mark.parametrize(
    "key", ["source: official:x", "untrusted: false", "append: true", "merge: {half_life_days: 1}"]
)
def test_keys_that_say_how_a_page_is_treated_are_not_taken_from_evidence(key: str) -> None:
    plan = weighed(f"---\n{key}\n---\n", "official:x")
    assert words(plan) == ["retain"]
    assert plan.text == PAGE


@pytest.mark.parametrize("heading", ["## Limits", "### Limits"])
def test_a_heading_that_the_page_has_elsewhere_is_kept_in_the_section_that_the_call_names(heading: str) -> None:
    plan = weighed(f"{heading}\n\nZebras may sleep in the northern stable.\n", section="Setup")
    assert "in a browser.\n\n### Limits\n\nZebras may sleep in the northern stable.\n\n## See also" in plan.text


# Bytes


def test_line_ends_and_the_order_mark_are_the_page_s() -> None:
    page = "\ufeff" + PAGE.replace("\n", "\r\n")
    plan = weighed("## Limits\n\n- Folders may be nested.\n", page=page)
    assert plan.text == page.replace("a day.\r\n", "a day.\r\n- Folders may be nested.\r\n")


def test_a_page_without_a_last_line_end_stays_without() -> None:
    page = "# A\n\nText about apples."
    assert weighed("Apples are red fruit.", page=page).text == page + "\n\nApples are red fruit."


def test_nothing_is_put_into_a_fence_that_is_never_closed() -> None:
    page = "# A\n\nText about apples.\n\n```\ncode about apples\n"
    plan = weighed("Apples are red fruit.", page=page)
    assert plan.text.index("red fruit") < plan.text.index("```")


@pytest.mark.parametrize("append", [True, False])
def test_a_fence_that_is_never_closed_stays_below_its_heading(*, append: bool) -> None:
    page = "# A\n\nText about apples.\n\n## 2026-11-27\n\nText.\n\n```\ncode\n"
    plan = weighed("## Pears\n\nPears are green.\n", page=page, append=append)
    assert plan.text == page.replace("## 2026", "## Pears\n\nPears are green.\n\n## 2026")


def test_a_fence_that_would_swallow_what_follows_is_not_put_in() -> None:
    plan = weighed("## Limits\n\n```\nnever closed\n")
    assert words(plan) == ["retain"]
    assert plan.text == PAGE


SENTENCES = st.sampled_from(
    [
        "Uploads are kept for 90 days.",
        "Uploads are kept for 30 days.",
        "Uploads are never kept.",
        "The cache holds 100 pages.",
        "The cache holds 100 pages, and is emptied at night.",
        "Retries: 3",
        "Retries: 5",
        "The importer reads `CSV` files.",
        "The importer reads CSV and JSON files.",
        "A worker runs in every zone.",
        "Grün ist die Heide.",
        "Siehe [Seite](seite.md) und [[Wiki]].",
        "漢字は難しい。",
        "The options are these:",
    ]
)
BLOCKS = st.one_of(
    SENTENCES,
    st.lists(SENTENCES.filter(lambda one: one.endswith(".")), min_size=2, max_size=3, unique=True).map(" ".join),
    st.lists(SENTENCES, min_size=1, max_size=4).map(lambda said: "\n".join(f"- {one}" for one in said)),
    st.lists(SENTENCES, min_size=1, max_size=3).map(lambda said: "\n".join(f"{n}. {s}" for n, s in enumerate(said, 1))),
    st.lists(SENTENCES, min_size=1, max_size=2).map(
        lambda said: "\n\n".join(f"- [ ] {one}\n  - nested" for one in said)
    ),
    st.sampled_from(
        [
            "| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |",
            "| a | b |\n|---|---|\n| x | 3 |\n| z | |",
            "```py\nretries = 3\n\n# no heading\n```",
            "~~~\n```\nnot closed\n~~~",
            "> [!note] Title\n> Text of the callout.",
            "<div>\nhtml\n</div>",
            "%%\na comment\n%%",
            "[ref]: https://example.org",
            "    indented code",
            "***",
            "## 2026-11-21",
            "Update 2026-11-20: uploads are fast.",
        ]
    ),
    st.sampled_from(["# Title", "## Uploads", "## Cache", "### Retries", "## See also", "Setext\n======"]),
)
DOCUMENTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "---\ntitle: T\ntags: [a, b]\n---\n", "---\n# note\nkey:\n  - one\nother: x\n---\n\n"]),
    st.lists(BLOCKS, max_size=7).map("\n\n".join),
    st.sampled_from(["", "\n", "\n\n"]),
)
SOURCES = st.sampled_from([CODE, CHAT, "zulip:ops/limits/2", "decision:4", "wiki:x", "unknown", "user"])


# The same examples every time: a page that says one thing twice in odd ways may need a second merge before nothing changes.
@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(page=DOCUMENTS, content=DOCUMENTS, source=SOURCES, append=st.booleans())
@example(page="- a\n", content="1. b\n", source=CODE, append=False)
def test_nothing_of_the_page_is_lost_and_weighing_again_changes_nothing(
    page: str, content: str, source: str, *, append: bool
) -> None:
    plan = weighed(content, source, page, append=append)
    after = units(cut(plan.text))
    assert len(plan.origins) == len(after)
    assert [origin.digest for origin in plan.origins] == [unit_digest(unit.text) for unit in after]
    changes = {"update"} & set(words(plan)) or any("adds" in verdict.reason for verdict in plan.verdicts)
    if not changes:
        rest = iter(split_lines(plan.text))
        for line in split_lines(page):
            assert any(line.rstrip("\n") == now.rstrip("\n") for now in rest), f"lost {line!r}"
    kept = [piece.text for piece in cut(plan.text).pieces]
    whole = ("fence", "html", "quote", "comment")
    if not changes:
        for piece in cut(page).pieces:
            assert piece.kind not in whole or any(piece.text.rstrip() == text.rstrip() for text in kept)
    if any("would change how the text around it reads" in verdict.reason for verdict in plan.verdicts):
        # Indented code cannot follow a list; once there is a paragraph after the list, it can.
        return
    again = weighed(content, source, plan.text, origins=plan.origins, append=append)
    assert again.text == plan.text
    assert set(words(again)) <= {"unchanged", "retain", "flag", "ask"}


# Only these may correct what CHAT said; a source that says more must keep every word.
@settings(max_examples=150)
@given(page=DOCUMENTS, content=DOCUMENTS, source=SOURCES.filter(lambda source: not source.startswith("zulip:")))
@example(page="- The importer reads CSV from Oslo.\n", content="- The importer reads CSV and JSON.\n", source="user")
def test_no_word_of_the_page_is_removed_by_another_source(page: str, content: str, source: str) -> None:
    assert keeps_words(weighed(content, source, page).text, page)


@settings(max_examples=30)
@given(page=st.text(max_size=80), content=st.text(max_size=80), append=st.booleans())
def test_no_text_is_too_odd(page: str, content: str, *, append: bool) -> None:
    plan = weighed(content, page=page, append=append)
    assert weighed(content, page=plan.text, origins=plan.origins, append=append).text == plan.text
