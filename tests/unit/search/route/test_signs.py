"""Rules and signs of a question's route, in each of their languages."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.route.router import weighed
from knowledge.search.route.signs import by_rules, sign_values, signs

NAVIGATION = [
    "docs/install.md",
    "guides/",
    "CHANGELOG.md",
    "OPS-142",
    "where is the runbook",
    "wo liegt der Bericht",
    "¿Dónde están las plantillas?",
    "où se trouve le dossier",
    "onde fica a pasta",
    "dove si trova il manuale",
    "waar staat het handboek",
    "list all pages",
    "zeige alle Seiten",
    "muestra las páginas",
    "affiche les documents",
    "mostre os documentos",
    "apri la cartella",
    "toon de pagina",
    "what's in the archive",
    "what is under operations",
    "qué hay en la carpeta",
    "was liegt im Archiv",
]
DISCOVERY = [
    "how does it scale",
    "why did the build break",
    "wie funktioniert das",
    "warum dauert das so lange",
    "¿Cómo funciona esto?",
    "¿Por qué tarda tanto?",
    "comment ça marche",
    "pourquoi est-ce si lent",
    "como funciona isso",
    "come funziona",
    "perché è lento",
    "hoe werkt dit",
    "can I rename a branch",
    "kann man das ändern",
    "explain docs/design.md",
    "timeout after ten seconds",
    "what happens if the disk is full",
]


@pytest.mark.parametrize("query", NAVIGATION)
def test_a_question_for_a_place_is_settled_by_a_rule(query: str) -> None:
    ruled = by_rules(signs(query))
    assert ruled is not None
    assert ruled.mode == "navigation", ruled.reason


@pytest.mark.parametrize("query", DISCOVERY)
def test_a_question_for_an_explanation_is_settled_by_a_rule(query: str) -> None:
    ruled = by_rules(signs(query))
    assert ruled is not None
    assert ruled.mode == "discovery", ruled.reason


def test_words_in_quotation_marks_are_a_name_and_not_a_complaint() -> None:
    assert weighed(signs('move the page "Installer errors" to the guide'), 0.0).mode == "navigation"


def test_a_title_marked_as_documentation_is_heard_without_its_mark() -> None:
    seen = signs("docs(guide): where is the index")
    assert seen.mark == "docs"
    assert seen.words[0] == "where"


@given(st.text(max_size=600), st.floats(-1, 1))
def test_any_text_at_all_has_a_route_with_a_reason(query: str, leaning: float) -> None:
    """Queries come from models and people: nothing they send may raise."""
    seen = signs(query)
    assert all(0 <= value <= 3 for value in list(sign_values(seen, leaning).values())[:-1])
    for taken in (by_rules(seen), weighed(seen, leaning)):
        if taken:
            assert 0.5 <= taken.confidence <= 1.0
            assert taken.reason


def test_naming_a_route_imports_nothing_heavy() -> None:
    """Tool results name it, and the list of tools has a budget."""
    code = "import sys, knowledge.search.answers; print([m for m in ('numpy', 'anyio', 'json') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
