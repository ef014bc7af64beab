"""Commands in messages can be typed as they are: for the same folder, in the terminal's words, and safe to paste."""

from __future__ import annotations

from argparse import Namespace
from contextvars import copy_context

import pytest

from mcp_server.cli.terminal.commands import as_commands, command, remember


@pytest.mark.parametrize(
    ("told", "typed"),
    [
        ("kb_map('') shows what exists", "knowledge-forge map shows what exists"),
        (
            "call kb_read('a b.md', section='Set up > Linux')",
            "call knowledge-forge read 'a b.md' --section 'Set up > Linux'",
        ),
        ("kb_map('d') (its pages are about x)", "knowledge-forge map d (its pages are about x)"),
        ("kb_search('how', path='guides')", "knowledge-forge search how --path guides"),
        ("kb_read('$(rm -rf x).md')", "knowledge-forge read '$(rm -rf x).md'"),
        ('kb_read("it\'s.md")', """knowledge-forge read 'it'"'"'s.md'"""),
        ("kb_read(path)", "kb_read(path)"),
        ("kb_read('a.md', revision='0f')", "kb_read('a.md', revision='0f')"),
        ("kb_merge('a.md')", "kb_merge('a.md')"),
        ("nothing to call", "nothing to call"),
    ],
)
def test_a_call_of_a_tool_becomes_the_command_that_does_the_same(told: str, typed: str) -> None:
    assert as_commands(told) == typed


def test_the_folder_of_this_command_is_part_of_the_next_one() -> None:
    def typed() -> tuple[str, str]:
        remember(Namespace(kb="my notes", state_dir="s"))
        return command("index"), as_commands("kb_map('x')")

    assert copy_context().run(typed) == (
        "knowledge-forge index --kb 'my notes' --state-dir s",
        "knowledge-forge map x --kb 'my notes' --state-dir s",
    )
    assert command("index") == "knowledge-forge index"
