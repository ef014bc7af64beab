"""Which answers end a run with its goal achieved, and why the others do not, in 24 languages."""

from __future__ import annotations

import pytest

from agents.loop.answer.goal_check import Answered, Lack, lack, repeats_itself

TOOLS = (
    "kb_search: Search the knowledge base. Returns hits with path, section and snippet.",
    "kb_read: Read a page or a section of the knowledge base.",
    "kb_map: Show the map of folders and pages.",
)
PAGE = (
    "# Deploy\nThe deploy window is Tuesday, 10:00 to 12:00. Ann Lee owns the release. To roll back, run deploy --to PREVIOUS "
    "within 30 minutes. The server listens on port 8443."
)
READ = ('{"hits":[{"path":"guides/deploy.md","section":"Rolling back","snippet":"To roll back, run deploy"}]}', PAGE)
WHERE, WHO, WHEN = "Which page tells how to roll back a deploy?", "Who owns the release?", "When is the deploy window?"

ANSWERS = [
    (WHERE, 'It is in guides/deploy.md, under "Rolling back".'),
    (WHERE, "guides/deploy.md"),
    (WHERE, "Anleitung: Führe deploy --to PREVIOUS innerhalb von 30 Minuten aus (guides/deploy.md)."),
    (WHERE, "I do not know who wrote it, but guides/deploy.md says: run deploy --to PREVIOUS within 30 minutes."),
    (WHERE, "Let me summarise: guides/deploy.md says to run deploy --to PREVIOUS within 30 minutes."),
    ("Which port does the server listen on?", "8443"),
    ("Which port does the server listen on?", "Port 8443."),
    ("Is the port 8443 or 9090?", "8443"),
    ("Is it Ann or Bob? Say A or B.", "A"),
    ("Say what the cap is.", "Twenty."),
    ("Translate 'good morning' into German.", "Guten Morgen"),
    (WHO, "Ann Lee"),
    (WHO, "The release is owned by Ann Lee."),
    (WHEN, "Tuesday, 10:00 to 12:00."),
    (WHEN, "Dienstags von 10 bis 12 Uhr."),
    (WHEN, "火曜日の10時から12時までです。"),
    ("Does the guide say who owns the release?", "Yes, it names Ann Lee."),
    ("Does the guide say who owns the release? Answer yes or no.", "yes"),
    ("Rename guides/a.md to guides/b.md.", "Renamed."),
    ("Rename guides/a.md to guides/b.md.", "Done."),
    ("Write a haiku about rollback.", "Code flows like water / a small stone turns the river / the old bed remains"),
    (
        "Show the call that searches.",
        "Use the search tool: it takes a query, for example `deploy window`, and returns hits.",
    ),
]
LACKING: list[tuple[str, str, Lack]] = [
    (WHERE, "", "nothing"),
    (WHERE, " ...\n", "nothing"),
    (WHERE, "x", "bare"),
    (WHERE, "ok", "bare"),
    (WHERE, "Yes.", "bare"),
    (WHERE, "It is so.", "bare"),
    (WHERE, "是的", "bare"),
    (WHO, "Lorem ipsum dolor sit amet.", "bare"),
    (WHERE, WHERE, "goal"),
    (WHERE, "The page tells how to roll back a deploy.", "goal"),
    (WHERE, "Which deploy do you mean?", "question"),
    (WHERE, "roll back the deploy\n" * 40, "loop"),
    (WHERE, "The page is the page that " * 60, "loop"),
    (WHERE, '<tool_call>{"name": "kb_search", "arguments": {"query": "roll back"}}</tool_call>', "call"),
    (WHERE, 'I search. {"name": "kb_search", "parameters": {"query": "roll back"}}', "call"),
    (WHERE, '[TOOL_CALLS][{"name":"kb_search","arguments":{}}]', "call"),
    (WHERE, 'kb_search(query="roll back")', "call"),
    (WHERE, '```json\n{"tool": "kb_search", "args": {"query": 1}}\n```', "call"),
    (WHERE, '<|python_tag|>kb_search.call(query="roll back")', "call"),
    (WHERE, "I will now search the knowledge base for the page.", "plan"),
    (WHERE, "Let me look at the map first and then read the page.", "plan"),
    (WHERE, "Ich werde jetzt in der Wissensdatenbank suchen.", "plan"),
    (WHERE, "Je vais chercher dans la base.", "plan"),
    (WHERE, "Я поищу это в базе знаний.", "plan"),
    (WHERE, "我将搜索知识库。", "plan"),
    (WHERE, "知識ベースを検索します。", "plan"),
    (WHERE, "I do not know.", "unknown"),
    (WHERE, "I'm sorry, but I don\u2019t know which page tells how to roll back a deploy.", "unknown"),
    (WHERE, "I could not find any information about that in the knowledge base.", "unknown"),
    (WHO, "I cannot find who owns the release. Please contact the team that runs the service for details.", "unknown"),
    (WHO, "I'm sorry. As an AI I cannot access your files.", "unknown"),
    *(
        (WHERE, text, "unknown")
        for text in (
            "Ich weiß es nicht.", "Je ne sais pas.", "No lo sé.", "Non lo so.", "Não sei.", "Ik weet het niet.", "Jag vet inte.",
            "En tiedä.", "Nie wiem.", "Nevím.", "Я не знаю.", "Δεν γνωρίζω.", "Nem tudom.", "Bilmiyorum.", "Tôi không biết.",
            "わかりません。", "我不知道。", "모르겠습니다.", "لا أعرف", "אני לא יודע.", "मुझे नहीं पता।", "ไม่ทราบ",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "answer"), ANSWERS)
def test_an_answer_with_something_beyond_the_goal_addresses_it(goal: str, answer: str) -> None:
    """Issue 25: nothing right is refused."""
    assert lack(answer, Answered(goal, READ, TOOLS, acted=True)) is None


@pytest.mark.parametrize(("goal", "answer", "why"), LACKING)
def test_an_answer_that_carries_nothing_does_not_address_the_goal(goal: str, answer: str, why: Lack) -> None:
    """Issue 25: a refusal, a plan, an echo, a call as text and a vacuous answer are not the goal achieved."""
    assert lack(answer, Answered(goal, READ, TOOLS, acted=True)) == why


def test_the_word_for_done_counts_only_after_something_was_done() -> None:
    """Our promise: an act that no tool carried out is not achieved."""
    assert lack("Done.", Answered("Rename a.md to b.md.")) == "bare"
    assert lack("Done.", Answered("Rename a.md to b.md.", acted=True)) is None


def test_a_list_of_steps_with_tools_is_a_plan_until_a_tool_has_answered() -> None:
    """Issue 25: a plan only is not the goal achieved, also without a word that announces it."""
    steps = "1. Search the knowledge base\n2. Read the page\n3. Answer"
    assert lack(steps, Answered(WHERE, tools=TOOLS)) == "plan"
    assert lack("Moved the page.", Answered("Move it", tools=TOOLS, acted=True)) is None


def test_the_newest_texts_count_where_much_was_read() -> None:
    """Our promise: a long run is measured in the time of a short one, by what it read last."""
    answer, long = (
        "I do not know who wrote it, but guides/deploy.md says: run deploy --to PREVIOUS within 30 minutes.",
        "word " * 40_000,
    )
    assert lack(answer, Answered(WHO, (long, *READ), TOOLS, acted=True)) is None
    assert lack(answer, Answered(WHO, (*READ, long), TOOLS, acted=True)) == "unknown"


def test_a_table_of_similar_rows_is_no_loop() -> None:
    """Our promise: long regular answers are kept."""
    table = "\n".join(f"| host-{n} | 10.0.{n % 7}.{n} | {n * 37 % 101} ms | rack {n % 5} |" for n in range(80))
    assert not repeats_itself(table)
    assert repeats_itself("Change the password.<|im_end|>\n" * 30)
