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
    """Print the rows of each table in each of the states; the last one that is there gives the audit chain.

    As JSON they are printed with all `facts`.
    """
    if as_json:
        print_json(
            {"from": source, "to": target, **facts, **{name: contents_fields(one) for name, one in states.items()}}
        )
        return
    shown = {name: one for name, one in states.items() if one is not None}
    print(f"From: {visible(source)}\nTo:   {visible(target)}")
    names = next(iter(shown.values())).rows
    rows = [(name, *(f"{one.rows[name]:,}" for one in shown.values())) for name in names]
    print_table(("table", *(name.replace("_", " ") for name in shown)), [row for row in rows if set(row[1:]) != {"0"}])
    print(chain_line(list(shown.values())[-1]))


def contents_fields(found: Contents | None) -> dict[str, object] | None:
    """Return the rows of each table and the facts about the audit chain."""
    return None if found is None else {"rows": dict(found.rows), "audit": asdict(found.chain)}


def chain_line(found: Contents) -> str:
    """Return a sentence about the audit chain."""
    chain = found.chain
    if chain.broken is not None:
        return f"Audit chain: {chain.records:,} records, broken at record {chain.broken} (knowledge-forge audit verify says how)"
    if not chain.records:
        return "Audit chain: no records"
    return f"Audit chain: {chain.records:,} records, all intact; it ends with {chain.seq}:{chain.digest}"
