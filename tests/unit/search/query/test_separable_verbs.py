"""German verbs whose first part stands at the end of a question."""

from __future__ import annotations

import pytest

from knowledge.search.query.analysis import words
from knowledge.search.query.separable_verbs import separated_verb
from tests.unit.search.query.test_question import asked


@pytest.mark.parametrize(
    ("query", "form"),
    [
        ("Wie lade ich eine Datei hoch?", "hochlade"),
        ("Wie setze ich den Server zur\u00fcck?", "zur\u00fccksetze"),
        ("Warum schaltet er sich nicht aus?", "ausschaltet"),
        ("Richte den Server ein", "einrichte"),
        ("Wie kann ich eine Datei hochladen?", None),
        ("Server aus", None),
        ("Worauf kommt es an", "ankommt"),
    ],
)
def test_the_verb_is_the_first_word_that_does_not_only_ask(query: str, form: str | None) -> None:
    verb = separated_verb(words(query))
    assert (verb.forms[0][0] if verb else None) == form


async def test_a_question_with_a_separated_verb_asks_for_the_whole_verb_if_a_page_has_it() -> None:
    text = "Die Dateien werden hochgeladen und sind dann auf dem Server, wo sie der Dienst findet."
    question = await asked("Wie lade ich eine Datei hoch?", text, language="de")
    forms = {term.word: dict(term.alternatives) for term in question.terms}
    assert "hoch" not in forms
    assert {"lad", "hochlad", "hochgelad"} <= forms["lade"].keys()
    assert forms["lade"]["hochlad"] == 1.0
    other = await asked("Wie backe ich einen Kuchen hoch?", text, language="de")
    assert "hoch" in {term.word for term in other.terms}  # no page has this verb in any form
