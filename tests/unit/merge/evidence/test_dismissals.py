"""Evidence whose contradiction with the page a person has dismissed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from knowledge.merge.document.unit_origins import PageFacts
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import DEFAULT_RULES
from knowledge.merge.evidence.merge import weigh
from knowledge.merge.model import Dismissal, IncomingEvidence, MergePlan, Origin, Ruling, unit_digest
from knowledge.merge.setting import MergeSetting

NOW = datetime(2026, 11, 26, tzinfo=UTC)
PAGE = (
    "---\nowner: mail team\n---\n# Mail\n\n"
    "## Limits\n\nA letter may be 32 MiB.\n\n"
    "| limit | value |\n|---|---|\n| retries | 3 |\n\n"
    "```yaml\nhost: mail\nport: 25\ntimeout: 30\nretries: 3\n```\n"
)
CLAIMS = {
    "prose": "## Limits\n\nA letter may be 64 MiB.\n",
    "row": "## Limits\n\n| limit | value |\n|---|---|\n| retries | 5 |\n",
    "block": "## Limits\n\n```yaml\nhost: mail\nport: 25\ntimeout: 60\nretries: 3\n```\n",
    "key": "---\nowner: post office\n---\n",
}


def weighed(claim: str, dismissals: dict[bytes, Dismissal]) -> MergePlan:
    document = cut(PAGE)
    origins = [
        Origin(unit_digest(unit.text), unit.section, "official:mail", 1.0, NOW, "r0") for unit in units(document)
    ]
    setting = MergeSetting(
        page=PageFacts("mail.md", "user", NOW, tracked=True),
        origins=origins,
        rules=DEFAULT_RULES,
        now=NOW,
        revision="r1",
        by="",
        dismissals=dismissals,
    )
    return weigh(document, cut(claim), IncomingEvidence("official:post", NOW), setting)


def ruled(claim: str, ruling: Ruling) -> MergePlan:
    """Return the plan after a person has dismissed everything that the claim contradicts."""
    (found,) = weighed(claim, {}).contradictions
    return weighed(claim, {found.pair: Dismissal(ruling, "ana", NOW, "two regions")})


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_claim_that_a_person_rejected_is_not_written_and_says_who_and_why(kind: str) -> None:
    plan = ruled(CLAIMS[kind], "existing")
    assert (plan.text, list(plan.contradictions)) == (PAGE, [])
    (verdict,) = plan.verdicts
    assert verdict.verdict == "retain"
    assert "ana kept the existing text on 2026-11-26 ('two regions')" in verdict.reason


@pytest.mark.parametrize("kind", ["prose", "block"])
def test_where_both_hold_the_claim_is_written_beside(kind: str) -> None:
    plan = ruled(CLAIMS[kind], "both")
    assert [verdict.verdict for verdict in plan.verdicts] == ["integrate"]
    assert list(plan.contradictions) == []
    body = CLAIMS[kind].partition("\n\n")[2]
    assert body in plan.text
    assert plan.text.replace("\n" + body, "", 1) == PAGE


@pytest.mark.parametrize("kind", ["row", "key"])
def test_a_key_has_one_value_even_if_both_hold(kind: str) -> None:
    plan = ruled(CLAIMS[kind], "both")
    assert (plan.text, list(plan.contradictions)) == (PAGE, [])
    assert "you answered that both hold, but only one fits here" in plan.verdicts[0].reason
