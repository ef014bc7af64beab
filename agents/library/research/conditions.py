"""The conditions under which research moves forward, or back.

Each looks only at the record and the knowledge base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.agent import ConditionFinding, Look, QuotedStatement, SubmitFacts
from agents.engine.evidence.substance import idle_answer, idle_texts, repetitions
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import (
    citations_in,
    finding,
    folded,
    listing,
    repeated_texts,
    shared_ids,
    short,
    unresolved_citations,
)
from agents.library.research.tree import DECOMPOSE, EXPAND, RISE_ABOVE, Item, Tree

LEAST_SEARCHED = 2
LEAST_ADJACENT = 3


# --- DECOMPOSE --------------------------------------------------------------------------------------------------------


async def question_tree_complete(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """Every category has a question and every question a category; no two ask the same, and no proposed category is undecided."""
    tree = Tree(facts.works)
    # Questions from the synthesis come first: of two that ask the same, this phase can drop only its own.
    asked = [*tree.items(RISE_ABOVE, "more_questions"), *tree.items(DECOMPOSE, "questions")]
    idle = [*idle_texts(tree.categories, "title", told=facts.told), *idle_texts(asked, "text", told=facts.told)]
    return finding([*_tree_wrong(tree), *repeated_texts(asked, "text"), *idle, *_undecided(tree)])


def _tree_wrong(tree: Tree) -> Iterator[str]:
    categories, questions = tree.categories, tree.items(DECOMPOSE, "questions")
    if not categories:
        yield "there is no category yet: submit categories, and questions in each"
    yield from shared_ids(categories, questions, tree.items(RISE_ABOVE, "more_questions"))
    yield from repeated_texts(categories, "title")
    used, there = {question["category"] for question in questions}, set(ids(categories))
    if bare := [id_ for id_ in ids(categories) if id_ not in used]:
        yield f"these categories have no question: {listing(bare)}; add one to each or drop them"
    if lost := [question["id"] for question in questions if question["category"] not in there]:
        yield f"these questions name categories that do not exist: {listing(lost)}; add them or name {listing(ids(categories))}"


def _undecided(tree: Tree) -> Iterator[str]:
    for category in tree.pending:
        yield (
            f"the category {category['id']} ({short(category['title'], 60)}) was proposed and is not in the tree: add it with its "
            "questions, or name its id in `left_out` with why"
        )


# --- ANSWER -----------------------------------------------------------------------------------------------------------


async def all_questions_answered(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Every question of the tree has an answer whose quotes hold, or is left open after real searches."""
    tree = Tree(facts.works)
    plain = list(_answers_lacking(tree))
    # Each check costs a read or a search: while anything else is missing, only this submission's answers are checked.
    given = frozenset(ids(items_in(facts.given, "answers"))) if plain else None
    looked = [*await unresolved_citations(facts.work, "answers", look, given), *await _not_open(tree, look, given)]
    return finding([*looked, *await _idle(tree, facts.told, look), *plain], statements=list(_statements(tree).values()))


def _statements(tree: Tree) -> dict[str, QuotedStatement]:
    """Return the answers that have a text and quotes, with their questions, by the id of the question."""
    found = {}
    for question in tree.answered:
        id_, answer = question["id"], tree.answers[question["id"]]
        quotes, text = tuple(one.quote for _, one in citations_in(answer)), answer.get("text", "")
        if quotes and text.strip():
            found[id_] = QuotedStatement(f"the answer to {id_}", text, quotes, question["text"])
    return found


async def _idle(tree: Tree, told: str, look: Look) -> list[str]:
    """Return a sentence for each answer that says nothing, has nothing to do with its question and quotes, or repeats another."""
    missing, answers = list[str](), list[tuple[str, str, Sequence[str]]]()
    for id_, said in _statements(tree).items():
        around = "\n".join([await look.passage(one) for _, one in citations_in(tree.answers[id_])])
        why = idle_answer(said.text, said.quotes, question=said.question, around=around, told=told)
        if why:
            missing.append(f"{said.place} {why}")
        else:
            answers.append((id_, said.text, said.quotes))
    return [*missing, *repetitions(answers)]


def _answers_lacking(tree: Tree) -> Iterator[str]:
    asked = set(ids(tree.questions))
    if unknown := [id_ for id_ in tree.answers if id_ not in asked]:
        yield f"these answers belong to no question of the tree: {listing(unknown)}; drop them or use the question's id"
    closed = [tree.answers[question["id"]] for question in tree.answered]
    if empty := [answer["id"] for answer in closed if not answer.get("text", "").strip()]:
        yield f"these answers have no text: {listing(empty)}"
    if bare := [answer["id"] for answer in closed if not answer.get("citations")]:
        yield f"these answers have no citation: {listing(bare)}; quote what they rest on, or leave them open"
    for question in tree.left_open:
        # The same query in other spelling is no second search.
        searched = {folded(query) for query in tree.answers[question["id"]]["open"]["searched"]} - {""}
        if len(searched) < LEAST_SEARCHED:
            yield f"{question['id']} is left open after {len(searched)} queries: search in {LEAST_SEARCHED} different ways first"
    if tree.unanswered:
        yield f"not answered yet: {listing(ids(tree.unanswered))}"


async def _not_open(tree: Tree, look: Look, only: frozenset[str] | None) -> list[str]:
    """Return a sentence for each question that was left open without its searches, or although a search finds enough."""
    missing = []
    for question in tree.left_open:
        if only is not None and question["id"] not in only:
            continue
        searched = tree.answers[question["id"]]["open"]["searched"]
        if unrun := [query for query in dict.fromkeys(searched) if not await look.searched(query)]:
            named = "; ".join(repr(short(query, 80)) for query in unrun)
            missing.append(
                f"{question['id']} is left open, but kb_search was not called with this journey_id for {named}: run it"
            )
            continue
        queries = [question["text"], *searched]
        enough = [query for query in dict.fromkeys(queries) if await look.scent(query) == "sufficient"]
        if enough:
            said = "its own words" if enough[0] == question["text"] else f"{short(enough[0], 80)!r}"
            missing.append(
                f"{question['id']} is left open, but kb_search finds enough for {said}: read that and answer"
            )
    return missing


async def new_category_discovered(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """This submit proposes a category that the tree does not have, with questions."""
    return _proposed(Tree(facts.works), facts.given, "new_categories")


def _proposed(tree: Tree, given: Mapping[str, object], name: str) -> ConditionFinding:
    proposed = items_in(given, name)
    new = tree.new_in(proposed)
    if new:
        return finding((), "; ".join(f"{_category(category)}, because {short(category['why'])}" for category in new))
    if proposed:
        known = listing(ids(proposed))
        return finding([f"the tree has {known} of `{name}`, or it was left out: a new category has a new id and title"])
    return finding([f"`{name}` names no category"])


def _category(category: Item) -> str:
    questions = items_in(category, "questions")
    asked = ", ".join(f"{question['id']} {short(question['text'], 100)!r}" for question in questions)
    return f"{category['id']} ({short(category['title'], 60)}) with {asked}"


# --- RISE_ABOVE -------------------------------------------------------------------------------------------------------


async def synthesis_reveals_missing_category(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """This submit names a category that the tree lacks, with questions."""
    return _proposed(Tree(facts.works), facts.given, "missing_categories")


async def synthesis_requires_more_answers(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """A question of the tree, or one that the synthesis added, has no recorded answer."""
    tree = Tree(facts.works)
    wrong = _more_wrong(tree)
    new = [question for question in tree.unanswered if question["id"] not in wrong]
    if new:
        return finding((), "; ".join(f"{question['id']}: {short(question['text'])}" for question in new))
    if wrong:
        return finding(list(wrong.values()))
    return finding(["`more_questions` has no new question that waits for an answer"])


def _more_wrong(tree: Tree) -> Mapping[str, str]:
    """Return the faults of each question that the synthesis asks."""
    wrong, more = dict[str, str](), tree.items(RISE_ABOVE, "more_questions")
    of_tree, categories = tree.items(DECOMPOSE, "questions"), set(ids(tree.categories))
    asked = {folded(question["text"]): question["id"] for question in of_tree}
    for question in more:
        id_ = question["id"]
        before = asked.setdefault(folded(question["text"]), id_)
        if id_ in categories or id_ in ids(of_tree):
            wrong[id_] = f"the question {id_} of `more_questions` has the id of something else: give it a new one"
        elif question["category"] not in categories:
            wrong[id_] = (
                f"the question {id_} is in no category of the tree: name one of {listing(ids(tree.categories))}"
            )
        elif before != id_:
            wrong[id_] = f"the question {id_} asks the same as {before}: drop it"
    return wrong


async def every_category_has_insight(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """Each category has an insight of its own that rests on answers, one of them its own, if it has any."""
    tree = Tree(facts.works)
    insights = list(tree.insights.values())
    idle = [*idle_texts(insights, "text", told=facts.told), *repeated_texts(insights, "text")]
    return finding([*_insights_lacking(tree), *idle, *_more_wrong(tree).values()])


def _insights_lacking(tree: Tree) -> Iterator[str]:
    known, answered = set(ids(tree.categories)), {question["id"]: question["category"] for question in tree.answered}
    if bare := [id_ for id_ in ids(tree.categories) if id_ not in tree.insights]:
        yield f"these categories have no insight: {listing(bare)}"
    if unknown := [id_ for id_ in tree.insights if id_ not in known]:
        yield f"these insights belong to no category: {listing(unknown)}; drop them or use the category's id"
    for id_, insight in tree.insights.items():
        rests_on = insight["rests_on"]
        if wrong := [question for question in rests_on if question not in answered]:
            yield f"the insight {id_} rests on questions without an answer: {listing(wrong)}; take them out of `rests_on`"
        if id_ in answered.values() and id_ not in [answered.get(question) for question in rests_on]:
            own = [question for question, category in answered.items() if category == id_]
            yield f"the insight {id_} rests on no answer of its category: name one of {listing(own)} in `rests_on`"


# --- EXPAND -----------------------------------------------------------------------------------------------------------


async def frontier_mapped(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """There are further questions that were not asked, each near a part of the tree."""
    tree = Tree(facts.works)
    adjacent = tree.items(EXPAND, "adjacent_questions")
    few = f"there are {len(adjacent)} adjacent questions: name at least {LEAST_ADJACENT}"
    idle = idle_texts(adjacent, "text", told=facts.told)
    return finding([*([few] if len(adjacent) < LEAST_ADJACENT else []), *_frontier_wrong(tree, adjacent), *idle])


def _frontier_wrong(tree: Tree, adjacent: Sequence[Item]) -> Iterator[str]:
    near = {*ids(tree.categories), *ids(tree.questions)}
    if lost := [question["id"] for question in adjacent if question["near"] not in near]:
        yield f"these are near nothing in the tree: {listing(lost)}; `near` is the id of a category or question"
    yield from shared_ids(tree.categories, tree.questions, adjacent)
    yield from repeated_texts([*tree.questions, *adjacent], "text")
