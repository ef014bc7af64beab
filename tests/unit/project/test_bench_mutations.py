"""Test cases that a sample of mutations doesn't tell apart."""

from __future__ import annotations

from tests.bench.mutations.contained import contained
from tests.bench.mutations.mutants import functions, mutant

SOURCE = "def f(a):\n    if a > 1:\n        return a\n    return 2\n"


def test_a_case_contains_those_of_its_file_that_kill_and_call_no_more() -> None:
    calls = {
        "a.py::wide": {"f", "g"},
        "a.py::narrow": {"f"},
        "a.py::narrow[same]": {"f"},
        "a.py::caller": {"h"},
        "a.py::killer": {"f"},
        "b.py::narrow": {"f"},
    }
    kills = [{"a.py::wide", "a.py::narrow"}, {"a.py::wide", "(collection)"}, {"a.py::killer"}]
    assert contained(calls, kills) == {"a.py::wide": ["a.py::narrow", "a.py::narrow[same]"]}


def test_each_number_is_one_change_of_a_function() -> None:
    found = [mutant(SOURCE, number) for number in range(len(functions(SOURCE)))]
    assert [one.change for one in found] == [
        "a > 1  ->  a <= 1",
        "1  ->  2",
        "return a  ->  return",
        "return 2  ->  return",
        "2  ->  3",
    ]
    assert {one.function for one in found} == {1}
    assert len({one.source for one in found}) == 5
