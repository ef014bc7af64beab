"""British and American spellings of a word are one term; words that only look alike stay apart."""

from __future__ import annotations

import pytest

from knowledge.search.query.analysis import stem

PAIRS = """
colour color, coloured colored, discolouration discoloration, behaviours behaviors, favourite favorite, neighbourhood
neighborhood, honourable honorable, labour labor, organise organize, organisational organizational, customisation customization,
normalising normalizing, initialised initialized, unauthorised unauthorized, serialiser serializer, memoise memoize, analyse
analyze, analyser analyzer, centre center, centred centered, centring centering, theatre theater, kilometres kilometers, fibre
fiber, catalogue catalog, cataloguing cataloging, dialogues dialogs, licence license, defence defense, practise practice,
programmes programs, labelled labeled, modelling modeling, cancelled canceled, fulfil fulfill
"""


@pytest.mark.parametrize("pair", [" ".join(pair.split()) for pair in PAIRS.split(",")])
def test_both_spellings_are_one_term(pair: str) -> None:
    british, american = pair.split()
    assert stem(british, "en") == stem(american, "en")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("paradise", "parade"),
        ("treatise", "treat"),
        ("hours", "hors"),
        ("source", "sorcery"),
        ("our", "or"),
        ("tour", "tor"),
        ("programmers", "programs"),
    ],
)
def test_other_words_stay_apart(one: str, other: str) -> None:
    assert stem(one, "en") != stem(other, "en")


@pytest.mark.parametrize(
    ("one", "other"),
    [("precise", "precision"), ("revise", "revision"), ("advertise", "advertisement"), ("exercise", "exercises")],
)
def test_words_that_both_write_with_an_s_keep_their_other_forms(one: str, other: str) -> None:
    assert stem(one, "en") == stem(other, "en")


def test_other_languages_keep_their_spelling() -> None:
    assert stem("couleur", "fr") != stem("color", "en")
    assert stem("organise", "fr") == "organis"
