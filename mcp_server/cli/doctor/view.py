"""Print findings and repairs for a person: what is alike becomes one line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

from agents.engine.work.markdown import counted
from mcp_server.app.settings.services import SERVICE_VARIABLES
from mcp_server.cli.doctor.page_problems import PageProblem
from mcp_server.cli.doctor.repairs import Repair
from mcp_server.cli.doctor.result import DoctorFinding
from mcp_server.cli.terminal.commands import given
from mcp_server.cli.terminal.console import stdout_console
from mcp_server.cli.terminal.escape import visible

MOST_IN_A_GROUP = 3
ALL = "… (all with --verbose)"
_COLOURS = {"ok": "green", "note": "yellow", "bad": "red"}
_NUMBER = re.compile(r" at line \d+|\d[\d,.]*")


def print_findings(findings: Sequence[DoctorFinding], *, verbose: bool) -> None:
    """Print a line for each finding, with pages of one problem together; `verbose` prints each of them."""
    folder = given()
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings if verbose else _without_unused(findings):
        lines = [escape(finding.found)] + ([f"[dim]-> {escape(finding.mend)}[/]"] if finding.mend else [])
        groups = _groups(finding.pages)
        for group in groups:
            every = verbose or len(group) == 1
            lines += _all_of(group) if every else _first_of(group, alone=len(groups) == 1)
        table.add_row(f"[{_COLOURS[finding.health]}]{finding.health}[/]", f"[bold]{finding.what}[/]", "\n".join(lines))
    stdout_console().print(table)
    if folder and any("knowledge-forge " in finding.mend for finding in findings):
        stdout_console().print(f"[dim]these commands need the same folder: {escape(folder)}[/]", soft_wrap=True)


def _without_unused(findings: Sequence[DoctorFinding]) -> Iterator[DoctorFinding]:
    """Yield the findings, with one line for all services that nobody has set up."""
    unused = [one for one in findings if one.unused]
    for finding in findings:
        if not finding.unused or len(unused) == 1:
            yield finding
        elif finding is unused[0]:
            named = ", ".join(
                SERVICE_VARIABLES[one.what].title if one.what in SERVICE_VARIABLES else one.what for one in unused
            )
            mend = "nothing is missing without them; --verbose says how to set each one up"
            yield DoctorFinding("services", "ok", f"not configured: {named}", mend)


def _groups(pages: Sequence[PageProblem]) -> Sequence[Sequence[PageProblem]]:
    """Return the pages with the same problem together, in the order in which the problems first appear."""
    groups: defaultdict[str, list[PageProblem]] = defaultdict(list)
    for page in pages:
        groups[_NUMBER.sub("", page.reason)].append(page)
    return list(groups.values())


def _first_of(group: Sequence[PageProblem], *, alone: bool) -> list[str]:
    """Return one line with the first pages of a group, and the advice for all; with `alone`, the line need not name their problem."""
    paths = list(dict.fromkeys(page.path or "." for page in group))
    more = f", {ALL}" if len(paths) > MOST_IN_A_GROUP else ""
    alike = len({page.reason for page in group}) == 1
    reason = group[0].reason if alike else _NUMBER.sub("", group[0].reason)
    count = "" if alone and alike else f"{counted(len(paths), 'page')}: {reason}: "
    return [escape(f"{count}{', '.join(paths[:MOST_IN_A_GROUP])}{more}"), *_advice(group)]


def _all_of(group: Sequence[PageProblem]) -> list[str]:
    """Return a line for each page of a group, and the advice: once if it is the same for all."""
    if len({page.mend for page in group}) == 1:
        return [*(escape(f"{page.path or '.'}: {page.reason}") for page in group), *_advice(group)]
    return [line for page in group for line in (escape(f"{page.path or '.'}: {page.reason}"), *_advice([page]))]


def _advice(group: Sequence[PageProblem]) -> list[str]:
    mends = {page.mend for page in group}
    return [f"  [dim]-> {escape(mend)}[/]" for mend in mends] if len(mends) == 1 else []


def repair_lines(repairs: Sequence[Repair]) -> Iterator[str]:
    """Yield a heading, and for each repair a numbered line and the lines of the page that it changes."""
    yield f"doctor can fix {counted(len(repairs), 'thing')}:" if repairs else "there is nothing that doctor can fix"
    for number, repair in enumerate(repairs, 1):
        yield f"  {number}. {visible(repair.sentence)}"
        yield from (f"       {visible(line)}" for line in (repair.page.lines if repair.page else ()))
