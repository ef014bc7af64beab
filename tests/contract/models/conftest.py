"""Models in these tests answer at once, but a busy machine may need longer to ask them than the limits allow."""

from __future__ import annotations

import pytest

from knowledge.search.route.second_opinion import SecondOpinion
from mcp_server.models.questions import BoundedQuestions

PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the limits within which a model must answer; a judge's includes the time to load its vendor's package."""
    for constructor in (BoundedQuestions.__init__, SecondOpinion.__init__):
        monkeypatch.setattr(
            constructor, "__kwdefaults__", {**(constructor.__kwdefaults__ or {}), "longest_s": PATIENCE_S}
        )
