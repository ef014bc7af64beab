"""The texts in prompts and lists about the recorded work of researching."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.events import Json, Note, QuestionAdded
from agents.engine.state import JourneyState
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import citations_in, listing, new_sources, short
from agents.library.research.tree import ANSWER, DECOMPOSE, EXPAND, RISE_ABOVE, Item, Tree
from agents.prompts.prompt import bullets

LIST_TOKENS = 220
"""The token limit of a list in a prompt: even with the longest brief and all finished work, an answer fits its budget."""
LINE = 260
"""The most characters of a line that lists many things."""
ASKED_TOKENS = 400
"""The same limit for the questions to answer, which share the prompt with only a few lines about finished work."""

PLACEHOLDERS = ("proposed", "open_questions", "insights_needed", "tree")


def values(state: JourneyState) -> Mapping[str, str]:
    """Return the values of the placeholders in this agent's prompts."""
    tree = Tree(state.works)
    return {
        "proposed": _listed([_category(category, asked=True) for category in tree.pending]),
        "open_questions": _listed([_question(question) for question in tree.unanswered], ASKED_TOKENS),
        "insights_needed": _listed(_insights_needed(tree)),
        "tree": _listed([_category(category) for category in tree.categories]),
    }


def _listed(told: Sequence[str], tokens: int = LIST_TOKENS) -> str:
    return bullets(told, tokens) or "- none"


def _question(question: Item) -> str:
    return f"{question['id']} ({question['category']}): {short(question['text'])}"


def _category(category: Item, *, asked: bool = False) -> str:
    told = f"{category['id']}: {short(category['title'], 60)}"
    questions = items_in(category, "questions") if asked else []
    return told + "".join(f"; {question['id']} {short(question['text'], 80)}" for question in questions)


def _insights_needed(tree: Tree) -> list[str]:
    """Return the categories without an insight, and those whose insight does not use all their answers yet."""
    told = []
    for category in tree.categories:
        own = [question["id"] for question in tree.answered if question["category"] == category["id"]]
        insight = tree.insights.get(category["id"])
        new = [id_ for id_ in own if insight is None or id_ not in insight["rests_on"]]
        if insight is None or new:
            there = f"answered: {listing(new)}" if new else "nothing was answered: `rests_on` is []"
            told.append(f"{category['id']} ({short(category['title'], 60)}), {there}")
    return told


def done(state: JourneyState) -> Sequence[str]:
    """Return a summary of the work so far for another host to continue from, beginning with the present phase's needs."""
    tree = Tree(state.works)
    counted, answers, insights = list(_counted(tree)), list(_answers(tree)), list(_insights(tree))
    if state.phase == DECOMPOSE:
        return [*_questions(tree), *_left_out(tree), *_counted_answers(tree)]
    if state.phase == ANSWER:
        return [*counted, *([] if tree.unanswered else answers)]
    if state.phase == RISE_ABOVE:
        return [*counted, *insights, *answers]
    return [*insights, *_open(tree), *_adjacent(tree), *counted]


def _questions(tree: Tree) -> Iterator[str]:
    for category in tree.categories:
        yield f"{_category(category)} ({short(category['why'], 80)})"
        yield from (_question(question) for question in tree.questions if question["category"] == category["id"])


def _left_out(tree: Tree) -> Iterator[str]:
    for item in tree.items(DECOMPOSE, "left_out"):
        yield f"left out: {item['id']}, {short(item['why'])}"


def _counted(tree: Tree) -> Iterator[str]:
    if tree.categories:
        names = listing([f"{category['id']} {short(category['title'], 40)}" for category in tree.categories])
        yield f"question tree: {len(tree.questions)} questions in {short(names, LINE)}"
    yield from _counted_answers(tree)


def _counted_answers(tree: Tree) -> Iterator[str]:
    if tree.answered:
        of = f"{len(tree.answered)} of {len(tree.questions)}"
        yield f"answered ({of}): {short(listing(ids(tree.answered), 60), LINE)}"
        paths = dict.fromkeys(citation.path for _, citation in citations_in(list(tree.answers.values())))
        yield f"sources: {short(listing(list(paths)), LINE)}"
    if tree.left_open:
        yield f"left open after a search: {short(listing(ids(tree.left_open), 60), LINE)}"


def _open(tree: Tree) -> Iterator[str]:
    for question in tree.left_open:
        searched = tree.answers[question["id"]]["open"]["searched"]
        yield f"left open {_question(question)} Searched: {short(listing(searched), 120)}"


def _answers(tree: Tree) -> Iterator[str]:
    for question in tree.answered:
        yield f"{question['id']} ({question['category']}): {short(tree.answers[question['id']].get('text', ''))}"


def _insights(tree: Tree) -> Iterator[str]:
    for category in tree.categories:
        if insight := tree.insights.get(category["id"]):
            yield f"insight {category['id']} ({short(category['title'], 40)}): {short(insight['text'])}"


def _adjacent(tree: Tree) -> Iterator[str]:
    for question in tree.items(EXPAND, "adjacent_questions"):
        yield f"next question {question['id']} (near {question['near']}): {short(question['text'])}"


def notes(phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return the questions and the sources that a work adds to its previous version."""
    name = {DECOMPOSE: "questions", RISE_ABOVE: "more_questions"}.get(phase, "")
    known = set(ids(items_in(before, name))) if isinstance(before, dict) else set()
    new = [question for question in items_in(after, name) if question["id"] not in known]
    return [*(QuestionAdded(q["id"], q["text"], q["category"]) for q in new), *new_sources(before, after)]


VIEWS = {"values": values, "done": done, "notes": notes}
