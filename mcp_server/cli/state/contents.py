"""Shows side by side how many rows whole states have, and what their audit chain says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict

from knowledge.state.transfer.layout import tables
from knowledge.state.transfer.move import TABLE_COPIED, Contents, OnStep
from mcp_server.cli.terminal.console import print_table, progress_bars
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import print_json
from mcp_server.presenters.whole_state import chain_line, table_counts


@contextmanager
def table_progress(*, shown: bool) -> Iterator[OnStep]:
    """Yield a function that draws how many tables are copied; a copy calls it at each step."""
    with progress_bars("tables copied", shown=shown) as (draw,):
        done = 0

        def on_step(name: str) -> None:
            nonlocal done
            done += name.endswith(TABLE_COPIED)
            draw(done, len(tables()))

        yield on_step


def show_contents(
    facts: Mapping[str, object], states: Mapping[str, Contents | None], *, source: str, target: str, as_json: bool
) -> None:
    """Print how many rows each table has in each state, and the audit chain of the last state that exists.

    As JSON, these are printed with all `facts`.
    """
    if as_json:
        print_json(
            {"from": source, "to": target, **facts, **{name: contents_fields(one) for name, one in states.items()}}
        )
        return
    shown = {name: one for name, one in states.items() if one is not None}
    print(f"From: {visible(source)}\nTo:   {visible(target)}")
    rows = [(name, *(f"{count:,}" for count in counts)) for name, counts in table_counts(shown.values()).items()]
    print_table(("table", *(name.replace("_", " ") for name in shown)), rows)
    print(chain_line(list(shown.values())[-1]))


def contents_fields(found: Contents | None) -> dict[str, object] | None:
    """Return the rows of each table and the facts about the audit chain."""
    return None if found is None else {"rows": dict(found.rows), "audit": asdict(found.chain)}
