"""Calls that small models write as text, in the syntax of each family, and JSON with their usual slips."""

from __future__ import annotations

from typing import Any

import pytest

from agents.loop.answer.written_calls import calls_in
from agents.loop.model.lenient_json import read_json

TOOLS = ("kb_search", "kb_read")
DEEPSEEK = (
    "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>kb_search\n"
    '```json\n{"query": "a"}\n```<\uff5ctool\u2581call\u2581end\uff5c>'
)
SEARCH = ("kb_search", {"query": "a"})

ONE = [
    '<tool_call>\n{"name": "kb_search", "arguments": {"query": "a"}}\n</tool_call>',
    '<tool_call>{"name": "kb_search", "arguments": {"query": "a"}',
    "<tool_call>\n<function=kb_search>\n<parameter=query>\na\n</parameter>\n</function>\n</tool_call>",
    '<|tool_call|>[{"name":"kb_search","arguments":{"query":"a"}}]',
    '[TOOL_CALLS][{"name": "kb_search", "arguments": {"query": "a"}}]',
    '[TOOL_CALLS]kb_search[ARGS]{"query": "a"}',
    '[TOOL_CALLS]kb_search{"query": "a"}',
    '<|python_tag|>{"name": "kb_search", "parameters": {"query": "a"}}',
    '<|python_tag|>kb_search.call(query="a")',
    '<function=kb_search>{"query": "a",}</function>',
    '{"type":"function","name":"kb_search","parameters":{"query":"a"}}',
    '{"function":{"name":"kb_search","arguments":{"query":"a"}}}',
    '{"name":"kb_search","arguments":"{\\"query\\": \\"a\\"}"}',
    "{'name': 'kb_search', 'arguments': {'query': 'a'}}",
    '```json\n{"name": "kb_search", "arguments": {"query": "a",}}\n```',
    '```tool_call\n{"name":"kb_search","arguments":{"query":"a"}}\n```',
    '```tool_code\nprint(default_api.kb_search(query="a"))\n```',
    '[kb_search(query="a")]',
    'kb_search(query="a")',
    'Thought: I look.\nAction: kb_search\nAction Input: {"query": "a"}',
    'Action: ```json\n[{"tool_name": "kb_search", "parameters": {"query": "a"}}]\n```',
    DEEPSEEK,
]


@pytest.mark.parametrize("text", ONE)
def test_a_call_is_read_in_the_syntax_of_each_family(text: str) -> None:
    """Issue 25: tool calls as text are handled."""
    calls, _ = calls_in(text, TOOLS)
    assert [(call.name, call.arguments, call.problem) for call in calls] == [(*SEARCH, "")]


def test_several_calls_and_the_text_before_them_are_told_apart() -> None:
    text = 'I look.\n<tool_call>{"name":"kb_search","arguments":{"query":"a"}}</tool_call>\n<tool_call>{"name":"kb_read"}</tool_call>'
    calls, before = calls_in(text, TOOLS)
    assert [call.name for call in calls] == ["kb_search", "kb_read"]
    assert before == "I look."


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "kb_search", "arguments": {"query": "a',
        '[TOOL_CALLS]kb_search{"query": nothing}',
        '<|python_tag|>kb_search("a")',
        "kb_search(query=open('x'))",
    ],
)
def test_arguments_that_cannot_be_read_are_a_problem_and_no_call(text: str) -> None:
    """Our promise: nothing in an act is guessed."""
    (call,), _ = calls_in(text, TOOLS)
    assert call.arguments == {}
    assert call.problem


@pytest.mark.parametrize(
    "text",
    [
        "It is in guides/deploy.md (see [link](x)).",
        'The answer is {"port": 8443}.',
        '{"name": "Ann", "role": "owner"}',
        'A host calls {"name": "kb_search", "arguments": {"query": "x"}}, and ' + "then reads the page. " * 30,
        "for n in range(3): kb_search(query='x')",
    ],
)
def test_an_answer_that_shows_json_or_code_is_no_call(text: str) -> None:
    assert calls_in(text, TOOLS) == ((), text)


MENDED: list[tuple[str, Any]] = [
    ('{"a": 1,}', {"a": 1}),
    ('{"a": [1, 2,],}', {"a": [1, 2]}),
    ('{"a": "x,}"}', {"a": "x,}"}),
    ("{'a': True, 'b': None}", {"a": True, "b": None}),
    ('{"a": "two\nlines"}', {"a": "two\nlines"}),
    ('{"a": {"b": 1}', {"a": {"b": 1}}),
]


@pytest.mark.parametrize(("text", "value"), MENDED)
def test_json_with_one_reading_is_mended(text: str, value: Any) -> None:
    assert read_json(text, open_ended=True) == value


@pytest.mark.parametrize(
    "text", ['{"a": "cut of', "{", '{"a": NaN}', "{a: 1}", '{"a": 1} {"b": 2}', "{'a': {1, 2}}", "[" * 100_000]
)
def test_json_that_takes_a_guess_is_not(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the only error it raises
        read_json(text, open_ended=True)
