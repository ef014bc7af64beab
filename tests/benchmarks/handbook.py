"""The handbook's page of measurements: each program writes its own section, between its marks."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.processes import ROOT

PAGE = ROOT / "kb" / "reference" / "benchmarks.md"


def write_section(name: str, lines: Sequence[str]) -> None:
    """Put `lines` where the section `name` is, or at the end of the page; all other sections stay as they are."""
    begin, end = f"<!-- {name}: written by the command below, not by hand -->", f"<!-- /{name} -->"
    before = PAGE.read_text(encoding="utf-8")
    head, found, rest = before.partition(begin)
    tail = rest.partition(end)[2] if found else "\n"
    head = head if found else head.rstrip("\n") + "\n\n"
    PAGE.write_text(head + begin + "\n" + "\n".join(lines) + "\n" + end + tail, encoding="utf-8")
