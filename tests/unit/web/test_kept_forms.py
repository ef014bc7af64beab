"""What of a late form is returned to the person who typed it."""

from __future__ import annotations

import pytest

from mcp_server.web.access.kept_forms import KeptForm, kept_form


def test_prose_is_shown_other_fields_are_sent_again_and_secrets_are_dropped() -> None:
    form = {
        "csrf": "a b",
        "secret": "a b",
        "do": "save",
        "opened": "x y",
        "base": "r1",
        "text": "one\r\ntwo",
        "note": "a b",
    }
    assert kept_form("/page/edit", form) == KeptForm("/page/edit", {"text": "one\ntwo", "note": "a b"}, {"base": "r1"})


@pytest.mark.parametrize("form", [{}, {"hash": "f" * 64}, {"text": " \n"}, {"csrf": "two words"}])
def test_a_form_without_prose_is_not_kept(form: dict[str, str]) -> None:
    assert kept_form("/page/edit", form) is None


@pytest.mark.parametrize("action", ["//evil.example/x", "/\\evil.example", "javascript:alert(1)", ""])
def test_a_form_is_never_sent_to_another_site(action: str) -> None:
    assert kept_form(action, {"text": "two words"}) is None
