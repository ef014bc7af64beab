"""The page of promises has a row for each file with long tests, and keeps the results of those that were not run again."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from tests.bench import promises


def test_the_page_has_a_row_for_each_file_with_long_tests() -> None:
    """An added, moved or removed proof shows here; `python -m tests.bench promises NAME` writes the page."""
    text = promises.PAGE.read_text(encoding="utf-8")
    assert list(promises.read(text)) == list(promises.slow_tests())
    assert promises.page(promises.read(text)) == text


def test_every_file_with_long_tests_states_its_promise() -> None:
    assert [path for path in promises.slow_tests() if not promises.promise(path)] == []


def test_results_that_were_not_run_again_are_kept() -> None:
    first, second, *_ = promises.slow_tests()
    assert promises.read(promises.page({first: "3 passed in 4 s"})) == {
        path: "3 passed in 4 s" if path == first else promises.NOT_RUN for path in promises.slow_tests()
    }
    assert second != first


def test_a_result_counts_passes_failures_and_skips() -> None:
    suite = Element("testsuite", tests="1200", failures="1", errors="1", skipped="2", time="61.4")
    assert promises.outcome([suite]) == "1,196 passed, 2 failed, 2 skipped in 61 s"
    assert promises.outcome([Element("testsuite", tests="3", time="0.2")]) == "3 passed in 0 s"
