from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.merge.document import unit_origins as provenance
from knowledge.merge.document.unit_origins import PageFacts, origins_after, presumed_origin, trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import Origin, Unit, unit_digest

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PAGE = """\
# Uploads

Uploads go to the object store in eu-west and are kept there for ninety days.

## Limits

- An upload may be 32 MiB at most.
- A person may upload 100 files a day.

| plan | quota |
|---|---|
| free | 1 GB |
| team | 50 GB |
"""
WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta", "omega", "1", "2", "3"]), min_size=1, max_size=9
).map(" ".join)
PAGES = st.lists(st.builds("{}{}".format, st.sampled_from(["", "## ", "- "]), WORDS), max_size=12).map("\n\n".join)


def of(text: str) -> tuple[Unit, ...]:
    return units(cut(text))


def origins(text: str, source: str = "code:a.py") -> list[Origin]:
    """Return a separate origin for each unit, distinguished by revision."""
    return [
        Origin(unit_digest(unit.text), unit.section, source, 0.9, NOW - timedelta(days=number), f"r{number}")
        for number, unit in enumerate(of(text))
    ]


def traced(before: str, after: str) -> dict[str, str | None]:
    """Return, by the text of each later unit, the revision of its origin."""
    found = trace_origins(of(after), origins(before), of(before))
    return {
        unit.text.strip(): origin.revision if origin else None for unit, origin in zip(of(after), found, strict=True)
    }


def test_a_page_that_nobody_touched_keeps_every_origin() -> None:
    assert trace_origins(of(PAGE), origins(PAGE), None) == origins(PAGE)


def test_rewrapping_and_indenting_change_no_origin() -> None:
    after = PAGE.replace("eu-west and", "eu-west\nand").replace("\n- ", "\n-   ")
    assert None not in traced(PAGE, after).values()


def test_a_block_that_moved_to_another_section_keeps_its_origin() -> None:
    line = "- An upload may be 32 MiB at most.\n"
    after = PAGE.replace(line, "") + "\n## Old\n\n" + line
    assert traced(PAGE, after)[line.strip()] == traced(PAGE, PAGE)[line.strip()]


def test_a_renamed_heading_costs_what_is_below_it_nothing() -> None:
    after = traced(PAGE, PAGE.replace("## Limits", "## Boundaries of everything"))
    assert after["| free | 1 GB |"] == traced(PAGE, PAGE)["| free | 1 GB |"]
    assert after["## Boundaries of everything"] is None


def test_a_corrected_word_keeps_the_origin() -> None:
    """Nearest match."""
    after = PAGE.replace("Uploads go to", "All uploads go to").replace("at most", "at the most")
    assert None not in traced(PAGE, after).values()


def test_another_value_has_no_origin_since_its_source_never_said_so() -> None:
    after = traced(PAGE, PAGE.replace("32 MiB", "64 MiB"))
    assert after["- An upload may be 64 MiB at most."] is None


def test_a_heavily_edited_block_is_unknown() -> None:
    after = PAGE.replace(
        "go to the object store in eu-west and are kept there for ninety days", "are thrown away at once"
    )
    assert traced(PAGE, after)["Uploads are thrown away at once."] is None


def test_what_fits_two_origins_equally_well_has_none() -> None:
    before = "The first shard of the search index lives in Oslo today.\n\nThe second shard of the search index lives in Oslo today.\n"
    after = "The shard of the search index lives in Oslo today.\n"
    assert list(traced(before, after).values()) == [None]


def test_a_new_block_has_no_origin() -> None:
    assert traced(PAGE, PAGE + "\nDownloads are free.\n")["Downloads are free."] is None


def test_the_same_line_twice_keeps_both_origins_in_order() -> None:
    text = "# A\n\n- same\n- same\n"
    assert [origin and origin.revision for origin in trace_origins(of(text), origins(text), of(text))] == [
        "r0",
        "r1",
        "r2",
    ]


def test_one_of_two_equal_lines_gone_is_unknown_if_they_came_from_different_places() -> None:
    text = "- same\n- same\n"
    known = [origins(text, "code:a.py")[0], origins(text, "code:b.py")[1]]
    assert trace_origins(of("- same\n"), known, of(text)) == [None]


@given(PAGES, PAGES)
def test_no_origin_is_given_twice_and_none_invented(before: str, after: str) -> None:
    known = origins(before)
    found = [origin for origin in trace_origins(of(after), known, of(before)) if origin]
    assert not Counter(origin.revision for origin in found) - Counter(origin.revision for origin in known)
    for unit, origin in zip(of(after), trace_origins(of(after), known, of(before)), strict=True):
        assert origin is None or (origin.digest, origin.section) == (unit_digest(unit.text), unit.section)


@given(PAGES, PAGES, PAGES, PAGES)
def test_what_stayed_at_both_ends_is_looked_at_for_nothing(first: str, was: str, now: str, last: str) -> None:
    """Omitting it from the search changes no answer."""
    text, after = (f"{first}\n\n{middle}\n\n{last}" for middle in (was, now))
    known = [replace(one, revision=f"{number % 2}") for number, one in enumerate(origins(text))]
    found = [trace_origins(of(after), known, before) for before in (of(text), None)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "_differing", lambda placed, were: (0, len(placed), len(were)))
        assert found == [trace_origins(of(after), known, before) for before in (of(text), None)]


@given(PAGES)
def test_a_page_as_it_was_has_all_its_origins(text: str) -> None:
    assert trace_origins(of(text), origins(text), of(text)) == origins(text)


@pytest.mark.external
def test_five_thousand_units_of_which_every_one_was_edited_take_no_minutes() -> None:
    """No time limit: a quadratic search would not return."""
    before = "".join(
        f"- Server {n} of the cluster keeps shard {n * 7} and answers in region {n % 9}.\n" for n in range(5000)
    )
    after = before.replace("answers in", "answers from inside")
    found = trace_origins(of(after), origins(before), of(before))
    assert sum(origin is not None for origin in found) > 4500


FACTS = PageFacts("guides/uploads.md", "wiki:uploads", NOW - timedelta(days=90), tracked=False)


def test_a_unit_of_a_page_never_written_through_us_is_the_page_s_own() -> None:
    origin = presumed_origin(of("Text.")[0], FACTS)
    assert (origin.source, origin.authority, origin.observed_at) == ("wiki:uploads", 0.5, FACTS.modified)


def test_a_unit_that_appeared_on_a_tracked_page_is_unknown() -> None:
    origin = presumed_origin(of("Text.")[0], PageFacts("a.md", "official:x", NOW, tracked=True))
    assert (origin.source, origin.authority) == ("unknown", 0.2)


def test_after_an_edit_what_is_new_is_the_editor_s_and_the_rest_stays() -> None:
    new = Origin(b"", (), "user", 0.8, NOW, "new", by="anna")
    after = PAGE.replace("100 files", "200 files") + "\nMore.\n"
    found = origins_after(of(after), before=of(PAGE), origins=origins(PAGE), new=new, page=FACTS)
    fresh = [unit.text.strip() for unit, origin in zip(of(after), found, strict=True) if origin.revision == "new"]
    assert fresh == ["- A person may upload 200 files a day.", "More."]
    assert all(origin.digest == unit_digest(unit.text) for unit, origin in zip(of(after), found, strict=True))


def test_after_an_edit_a_unit_of_unknown_origin_is_still_unknown() -> None:
    tracked = PageFacts("a.md", "user", NOW, tracked=True)
    new = Origin(b"", (), "user", 0.8, NOW, "new")
    found = origins_after(of("One.\n\nTwo.\n"), before=of("One.\n"), origins=[None], new=new, page=tracked)
    assert [origin.source for origin in found] == ["unknown", "user"]
