"""A host's and its person's acts, step by step, to lead each agent through all of its transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.agents.agent_harness import FLOWERS, VARROA, WATER, WINTER

Json = Any


@dataclass(frozen=True)
class Step:
    """One call, and the journey's position after it. `says` is found in the host's next answer.

    `work` and `changes` may name values of an earlier answer as `$tool.field`.
    """

    kind: Literal["submit", "decide", "call", "reject_proposal", "approve_proposal"]
    content: Mapping[str, Json]
    phase: str
    state: str = "active"
    says: Sequence[str] = ()
    signals: Sequence[str] = ()


@dataclass(frozen=True)
class Script:
    """A complete journey, and its transitions in order."""

    agent: str
    brief: str
    steps: Sequence[Step]
    takes: Sequence[tuple[str, str, str]]
    level: float = 3.0
    inputs: Mapping[str, Json] = field(default_factory=dict)


def submit(phase: str, work: Mapping[str, Json], *says: str, state: str = "active", signal: str = "") -> Step:
    return Step("submit", work, phase, state, says, [signal] if signal else [])


def decide(
    phase: str,
    decision: str,
    *says: str,
    note: str = "",
    state: str = "active",
    changes: Mapping[str, Json] | None = None,
) -> Step:
    return Step("decide", {"decision": decision, "note": note, "changes": changes or {}}, phase, state, says)


def call(phase: str, tool: str, **arguments: Json) -> Step:
    return Step("call", {"tool": tool, **arguments}, phase)


def category(id_: str, title: str) -> dict[str, Json]:
    return {"id": id_, "title": title, "why": "it is a part of the brief"}


def question(id_: str, of: str, text: str) -> dict[str, Json]:
    return {"id": id_, "category": of, "text": text, "why": "it changes the answer"}


def answer(id_: str, *citations: Mapping[str, Json]) -> dict[str, Json]:
    said = " ".join(str(citation["quote"]) for citation in citations)
    return {"id": id_, "text": f"The page says: {said}", "citations": list(citations)}


ALTERED = {**WINTER, "quote": "In winter the bees form a cluster and eat about 15 grams of stored honey."}
ELSEWHERE = {**WINTER, "section": "Varroa"}
LAW = {**category("c3", "Law"), "questions": [{"id": "q9", "text": "Who has to be asked for bees on a roof?"}]}
TRADE = {**category("c4", "Trade"), "questions": [{"id": "q8", "text": "What does honey cost in the shop?"}]}
NEXT = [
    {"id": f"a{n}", "text": text, "why": "it comes next", "near": near}
    for n, (text, near) in enumerate(
        [("Who pays for the sugar?", "c1"), ("What do wasps do?", "c2"), ("How is honey sold?", "q3")], 1
    )
]

RESEARCH = Script(
    "research",
    "Keep bees on the roof.",
    (
        call("DECOMPOSE", "kb_map"),
        submit("DECOMPOSE", {"categories": [category("c1", "Winter"), category("c2", "Summer")]}, "no question"),
        submit(
            "DECOMPOSE",
            {
                "questions": [
                    question("q1", "c1", "How much do bees eat in winter?"),
                    question("q2", "c1", "What kills bees in winter?"),
                    question("q3", "c2", "Which flowers feed bees in July?"),
                ]
            },
            "Which flowers feed bees",
            state="waiting",
        ),
        decide("DECOMPOSE", "reject", "rejected the submitted work", "what of the law", note="what of the law?"),
        submit("DECOMPOSE", {}, state="waiting"),
        decide("ANSWER", "approve", "q1", note="go on"),
        call("ANSWER", "kb_search", query="bees winter"),
        submit("ANSWER", {"answers": [answer("q1", ALTERED)]}, "q1", "word for word"),
        submit("ANSWER", {"answers": [answer("q1", ELSEWHERE)]}, "name that one"),
        submit("ANSWER", {"answers": [answer("q1", WINTER)]}, "not answered yet: q2, q3"),
        submit("ANSWER", {}, "not confirmed", signal="new_category_discovered"),
        submit(
            "DECOMPOSE", {"new_categories": [LAW]}, "Why: new_category_discovered", "visit 2", "Who has to be asked"
        ),
        submit("DECOMPOSE", {"left_out": [{"id": "c3", "why": "the person knows the law"}]}, state="waiting"),
        decide("ANSWER", "approve"),
        submit("RISE_ABOVE", {"answers": [answer("q2", VARROA), answer("q3", FLOWERS)]}, "c1"),
        decide("ANSWER", "reject", "one page is not enough", note="one page is not enough"),
        submit("RISE_ABOVE", {"answers": [answer("q3", FLOWERS, WATER)]}),
        submit(
            "ANSWER",
            {"more_questions": [question("m1", "c2", "How do bees drink?")]},
            "Why: synthesis_requires_more_answers",
            "m1 (c2): How do bees drink?",
        ),
        submit("RISE_ABOVE", {"answers": [answer("m1", WATER)]}),
        submit(
            "DECOMPOSE",
            {"missing_categories": [TRADE]},
            "Why: synthesis_reveals_missing_category",
            "What does honey cost",
        ),
        submit("DECOMPOSE", {"left_out": [{"id": "c4", "why": "nothing is sold"}]}, state="waiting"),
        decide("ANSWER", "approve"),
        submit("RISE_ABOVE", {}),
        submit("RISE_ABOVE", {"insights": [{"id": "c1", "text": "Feed them.", "rests_on": ["q1", "q2"]}]}, "c2"),
        submit("EXPAND", {"insights": [{"id": "c2", "text": "Flowers and water.", "rests_on": ["q3", "m1"]}]}),
        submit("EXPAND", {"adjacent_questions": NEXT[:2]}, "at least 3"),
        submit("COMPLETE", {"adjacent_questions": NEXT[2:]}, "Flowers and water.", state="complete"),
    ),
    (
        ("DECOMPOSE", "ANSWER", "question_tree_complete"),
        ("ANSWER", "DECOMPOSE", "new_category_discovered"),
        ("DECOMPOSE", "ANSWER", "question_tree_complete"),
        ("ANSWER", "RISE_ABOVE", "all_questions_answered"),
        ("RISE_ABOVE", "ANSWER", "reject"),
        ("ANSWER", "RISE_ABOVE", "all_questions_answered"),
        ("RISE_ABOVE", "ANSWER", "synthesis_requires_more_answers"),
        ("ANSWER", "RISE_ABOVE", "all_questions_answered"),
        ("RISE_ABOVE", "DECOMPOSE", "synthesis_reveals_missing_category"),
        ("DECOMPOSE", "ANSWER", "question_tree_complete"),
        ("ANSWER", "RISE_ABOVE", "all_questions_answered"),
        ("RISE_ABOVE", "EXPAND", "every_category_has_insight"),
        ("EXPAND", "COMPLETE", "frontier_mapped"),
    ),
)


def concept(id_: str, text: str, *citations: Mapping[str, Json]) -> dict[str, Json]:
    return {"id": id_, "text": text, "citations": list(citations)}


def plan_step(id_: str, text: str, *rests_on: str) -> dict[str, Json]:
    return {"id": id_, "step": text, "done_when": f"one sees: {text}", "rests_on": list(rests_on)}


SEEN = {"artefacts": ["code:src/hive.py"], "observed": "12 passed"}

BUILD = Script(
    "build",
    "A hive on the roof.",
    (
        submit("GROUNDING", {"goal": "A hive.", "concepts": [concept("k1", "Bees need stores", ALTERED)]}, "k1"),
        submit(
            "GROUNDING",
            {
                "concepts": [concept("k1", "Bees need stores", WINTER), concept("k2", "Mites kill", VARROA)],
                "plan": [plan_step("s1", "Weigh the hive", "k1"), plan_step("s2", "Treat the mites", "k1", "k2")],
            },
            "Weigh the hive",
            state="waiting",
        ),
        decide("GROUNDING", "reject", "no acid", note="no acid on my roof"),
        submit("GROUNDING", {}, state="waiting"),
        decide(
            "GROUNDING",
            "modify",
            "s2 rests on concepts",
            changes={"concepts": [concept("k1", "Bees need stores", WINTER)], "drop": ["k2"]},
        ),
        submit("GROUNDING", {"concepts": [concept("k2", "Mites kill", VARROA)]}, state="waiting"),
        decide("MAKING", "approve", "Weigh the hive"),
        submit("MAKING", {"made": [{"id": "s1", "result": "weighed", "shown_by": [WINTER]}]}, "not made yet: s2"),
        submit("MAKING", {}, "not confirmed", signal="conceptual_gap_discovered"),
        submit(
            "GROUNDING",
            {"gap": {"concept": "k9", "text": "How oxalic acid is dosed", "step": "s2"}},
            "Why: conceptual_gap_discovered",
            "How oxalic acid is dosed",
            "made (1 of 2): s1",
        ),
        submit(
            "GROUNDING",
            {"concepts": [concept("k9", "Dosing water", WATER)], "plan": [plan_step("s2", "Treat", "k2", "k9")]},
            state="waiting",
        ),
        decide("MAKING", "approve", "come back to MAKING"),
        decide("GROUNDING", "revisit", "look again", note="look again", changes={"phase": "GROUNDING"}),
        submit("GROUNDING", {}, state="waiting"),
        decide("MAKING", "approve"),
        submit("COMPLETE", {"made": [{"id": "s2", "result": "treated", **SEEN}]}, "treated", state="complete"),
    ),
    (
        ("GROUNDING", "MAKING", "grounded"),
        ("MAKING", "GROUNDING", "conceptual_gap_discovered"),
        ("GROUNDING", "MAKING", "grounded"),
        ("MAKING", "GROUNDING", "revisit"),
        ("GROUNDING", "MAKING", "grounded"),
        ("MAKING", "COMPLETE", "everything_made"),
    ),
)


def probe(id_: str, *, correct: bool, about: str | None = None) -> dict[str, Json]:
    return {"id": id_, "question": f"{id_}?", "learner_answer": "I think so", "correct": correct, "about": about}


def check(id_: str, *, correct: bool = True) -> dict[str, Json]:
    return {"id": id_, "question": f"{id_}?", "learner_answer": "So it is", "correct": correct}


def diagnosis(objective: str, *probes: Mapping[str, Json], **more: Json) -> dict[str, Json]:
    return {"objective": objective, "diagnoses": [{"id": objective, "probes": list(probes)}], **more}


def lesson(objective: str, *checks: Mapping[str, Json], **more: Json) -> dict[str, Json]:
    taught = {
        "id": objective,
        "taught": f"What the page says: {WINTER['quote']}",
        "citations": [WINTER],
        "checks": list(checks),
    }
    return {"lessons": [taught], **more}


def known(id_: str, topic: str, level: str) -> dict[str, Json]:
    return {"id": id_, "topic": topic, "level": level, "learner_said": "I have read of it"}


UNDERSTAND = Script(
    "understand",
    "Teach me to get bees through the winter.",
    (
        submit(
            "CALIBRATE",
            {
                "goal": "Get bees through the winter.",
                "knows": [known("w1", "winter", "solid")],
                "objectives": [{"id": "o1", "text": "Say how much they eat", "source": ELSEWHERE}],
            },
            "o1",
        ),
        submit(
            "CALIBRATE",
            {
                "objectives": [
                    {"id": "o1", "text": "Say how much they eat", "source": WINTER},
                    {"id": "o2", "text": "Name what kills them", "needs": ["o1"], "source": VARROA},
                ]
            },
            "Say how much they eat",
            state="waiting",
        ),
        decide("DIAGNOSE", "approve", "o1"),
        submit(
            "CALIBRATE",
            diagnosis(
                "o1",
                probe("p1", correct=False, about="w1"),
                recalibrate={"knows": "w1", "probe": "p1", "why": "it was wrong"},
            ),
            "Why: calibration_was_inaccurate",
        ),
        submit("CALIBRATE", {"knows": [known("w1", "winter", "some")]}, state="waiting"),
        decide("DIAGNOSE", "approve"),
        submit("DIAGNOSE", diagnosis("o1", probe("p2", correct=False)), "2"),
        submit("TEACH", diagnosis("o1", probe("p2", correct=False), probe("p3", correct=True)), "o1"),
        submit(
            "DIAGNOSE",
            lesson("o1", check("c1", correct=False), check("c2")),
            "Why: check_question_failed",
        ),
        submit("TEACH", diagnosis("o1", probe("p4", correct=True), probe("p5", correct=True))),
        submit(
            "CALIBRATE",
            lesson(
                "o1",
                check("c3", correct=False),
                gap={"prerequisite": "What a colony is", "check": "c3", "why": "the word is not known"},
            ),
            "Why: fundamental_prerequisite_gap",
            "What a colony is",
        ),
        submit(
            "CALIBRATE",
            {
                "objectives": [
                    {"id": "o0", "text": "What a colony is", "source": FLOWERS},
                    {"id": "o1", "text": "Say how much they eat", "needs": ["o0"], "source": WINTER},
                ]
            },
            state="waiting",
        ),
        decide("DIAGNOSE", "approve", "o0"),
        submit("TEACH", diagnosis("o0", probe("p6", correct=True), probe("p7", correct=True))),
        submit("TEACH", lesson("o0", check("c4")), "o0"),
        submit("DIAGNOSE", lesson("o0", check("c4"), check("c5")), "o1"),
        submit("TEACH", diagnosis("o1", probe("p8", correct=True), probe("p9", correct=True))),
        submit("DIAGNOSE", lesson("o1", check("c6"), check("c7")), "o2"),
        submit("TEACH", diagnosis("o2", probe("pa", correct=True), probe("pb", correct=True))),
        submit("COMPLETE", lesson("o2", check("c8"), check("c9")), state="complete"),
    ),
    (
        ("CALIBRATE", "DIAGNOSE", "learner_calibrated"),
        ("DIAGNOSE", "CALIBRATE", "calibration_was_inaccurate"),
        ("CALIBRATE", "DIAGNOSE", "learner_calibrated"),
        ("DIAGNOSE", "TEACH", "objective_diagnosed"),
        ("TEACH", "DIAGNOSE", "check_question_failed"),
        ("DIAGNOSE", "TEACH", "objective_diagnosed"),
        ("TEACH", "CALIBRATE", "fundamental_prerequisite_gap"),
        ("CALIBRATE", "DIAGNOSE", "learner_calibrated"),
        ("DIAGNOSE", "TEACH", "objective_diagnosed"),
        ("TEACH", "DIAGNOSE", "objective_passed"),
        ("DIAGNOSE", "TEACH", "objective_diagnosed"),
        ("TEACH", "DIAGNOSE", "objective_passed"),
        ("DIAGNOSE", "TEACH", "objective_diagnosed"),
        ("TEACH", "COMPLETE", "all_objectives_passed"),
    ),
)

HONEY = "# Honey\n\nHoney is harvested in the last week of July.\n\nNever in August, for then the bees need it.\n"
HONEY_NOW = {"path": "plans/honey.md", "section": "Honey", "quote": "Never in August, for then the bees need it."}
EVIDENCE = {"id": "e1", "says": "they eat 15 kilograms", "citation": WINTER}
MERGE = {"path": "plans/honey.md", "content": HONEY, "base_revision": "$kb_read.revision", "intent": "say when not"}

CURATE = Script(
    "curate",
    "When is honey not harvested, and why?",
    (
        submit("ORIENT", {"question": "notes/bees.md", "mode": "navigation", "place": "notes"}),
        submit("ORIENT", {"candidates": [{"id": "n1", "path": "notes", "why": "bees"}]}, "kb_map"),
        call("ORIENT", "kb_map", path="notes"),
        submit("TARGET", {"candidates": [{"id": "n1", "path": "notes", "why": "bees"}]}),
        submit("TARGET", {"pages": [{"id": "t1", "path": "notes/bees.md", "why": "winter"}]}, "was not read"),
        call("TARGET", "kb_read", path="notes/bees.md"),
        submit("DEEP_DIVE", {}),
        submit("DEEP_DIVE", {"evidence": [{**EVIDENCE, "citation": ALTERED}]}, "e1"),
        submit(
            "ORIENT",
            {"missing": "the tariff of the harbour crane in Rostock"},
            "Why: missing_context",
            "harbour crane",
        ),
        call("ORIENT", "kb_map"),
        submit("TARGET", {}),
        call("TARGET", "kb_read", path="notes/bees.md"),
        submit("DEEP_DIVE", {}),
        submit("REASON", {"evidence": [EVIDENCE]}),
        submit(
            "ACT",
            {
                "conclusion": "In August the bees need their honey.",
                "rests_on": ["e1"],
                "act": {"kind": "merge", "path": "plans/honey.md", "why": "the plan does not say so"},
            },
        ),
        call("ACT", "kb_read", path="plans/honey.md"),
        call("ACT", "kb_merge", **MERGE),
        submit(
            "ACT",
            {"acts": [{"id": "d1", "tool": "kb_merge", "path": "plans/honey.md", "proposal": "$kb_merge.proposal.id"}]},
            "waits",
        ),
        Step("reject_proposal", {"note": "say why, too"}, "ACT"),
        submit(
            "REASON",
            {"acts": [{"id": "d1", "tool": "kb_merge", "path": "plans/honey.md", "proposal": "$kb_merge.proposal.id"}]},
            "Why: human_rejected",
            "say why, too",
        ),
        submit("ACT", {"act": {"kind": "merge", "path": "plans/honey.md", "why": "with the reason this time"}}),
        call("ACT", "kb_merge", **MERGE),
        Step("approve_proposal", {"note": "now it does"}, "ACT"),
        submit(
            "MERGE",
            {
                "drop": ["d1"],
                "acts": [
                    {"id": "d2", "tool": "kb_merge", "path": "plans/honey.md", "proposal": "$kb_merge.proposal.id"}
                ],
            },
        ),
        call("MERGE", "kb_read", path="plans/honey.md"),
        submit(
            "MERGE",
            {"pages": [{"id": "v1", "path": "plans/honey.md", "revision": "0" * 16, "says": HONEY_NOW}]},
            "present revision",
        ),
        submit(
            "COMPLETE",
            {"pages": [{"id": "v1", "path": "plans/honey.md", "revision": "$kb_read.revision", "says": HONEY_NOW}]},
            state="complete",
        ),
    ),
    (
        ("ROUTE", "ORIENT", "known_place"),
        ("ORIENT", "TARGET", "oriented"),
        ("TARGET", "DEEP_DIVE", "targeted"),
        ("DEEP_DIVE", "ORIENT", "missing_context"),
        ("ORIENT", "TARGET", "oriented"),
        ("TARGET", "DEEP_DIVE", "targeted"),
        ("DEEP_DIVE", "REASON", "evidence_found"),
        ("REASON", "ACT", "act_chosen"),
        ("ACT", "REASON", "human_rejected"),
        ("REASON", "ACT", "act_chosen"),
        ("ACT", "MERGE", "knowledge_changed"),
        ("MERGE", "COMPLETE", "merged"),
    ),
    level=2.5,
)

CURATE_ANSWER = Script(
    "curate",
    "Why do bees die in winter?",
    (
        submit("DEEP_DIVE", {"question": "Why do bees die in winter, and how is that avoided?", "mode": "discovery"}),
        call("DEEP_DIVE", "kb_search", query="why do bees die in winter"),
        submit("REASON", {"evidence": [{"id": "e1", "says": "mites", "citation": VARROA}]}),
        submit(
            "ACT",
            {"conclusion": "Of mites.", "rests_on": ["e1"], "act": {"kind": "answer", "why": "it was only asked"}},
        ),
        submit("ACT", {}, "`said` is empty"),
        submit("COMPLETE", {"said": "Of mites, mostly."}, state="complete"),
    ),
    (
        ("ROUTE", "DEEP_DIVE", "unknown_place"),
        ("DEEP_DIVE", "REASON", "evidence_found"),
        ("REASON", "ACT", "act_chosen"),
        ("ACT", "COMPLETE", "acted"),
    ),
)

A_CHANGE = {"question": "Say that September is no harvest month.", "mode": "change", "place": "plans/honey.md"}
MERGE_CHANGE = {**MERGE, "content": f"{HONEY}\nNor in September, when they are fed.\n"}
CHANGED_NOW = {**HONEY_NOW, "quote": "Nor in September, when they are fed."}


def proposed(id_: str) -> dict[str, Json]:
    return {"id": id_, "tool": "kb_merge", "path": "plans/honey.md", "proposal": "$kb_merge.proposal.id"}


CURATE_CHANGE = Script(
    "curate",
    "Honey is not harvested in September: say so in the plan.",
    (
        submit("ROUTE", A_CHANGE, "was not read in this journey"),
        call("ROUTE", "kb_read", path="plans/honey.md"),
        call("ROUTE", "kb_merge", **MERGE_CHANGE),
        submit("ROUTE", {**A_CHANGE, "mode": "discovery"}, "submit mode `change` for it"),
        submit("ACT", {"ROUTE": A_CHANGE, "ACT": {"acts": [proposed("d1")]}}, "waits"),
        Step("reject_proposal", {"note": "say why, too"}, "ACT"),
        submit("ROUTE", {"acts": [proposed("d1")]}, "Why: small_change_fails", "say why, too"),
        call("ROUTE", "kb_read", path="plans/honey.md"),
        call("ROUTE", "kb_merge", **MERGE_CHANGE),
        Step("approve_proposal", {"note": "now it does"}, "ROUTE"),
        submit("MERGE", {"ROUTE": {}, "ACT": {"drop": ["d1"], "acts": [proposed("d2")]}}),
        call("MERGE", "kb_read", path="plans/honey.md"),
        submit(
            "COMPLETE",
            {"pages": [{"id": "v1", "path": "plans/honey.md", "revision": "$kb_read.revision", "says": CHANGED_NOW}]},
            state="complete",
        ),
    ),
    (
        ("ROUTE", "ACT", "small_change"),
        ("ACT", "ROUTE", "small_change_fails"),
        ("ROUTE", "ACT", "small_change"),
        ("ACT", "MERGE", "knowledge_changed"),
        ("MERGE", "COMPLETE", "merged"),
    ),
    level=2.5,
)

BRIEF = "Get the hive through the winter. It must have 15 kilograms of honey. Mites have to be treated."
REQUIREMENTS = [
    {"id": "r1", "text": "Enough honey", "words": "must have 15 kilograms of honey"},
    {"id": "r2", "text": "No mites", "words": "Mites have to be treated"},
]


def task(id_: str, text: str, duration: str, **more: Json) -> dict[str, Json]:
    return {"id": id_, "step": text, "done_when": f"one sees: {text}", "duration": duration, **more}


WEIGH = task("s1", "Weigh the hive", "30 min", covers=["r1"])
TREAT = task("s2", "Treat the mites", "2 h", covers=["r2"], depends_on=["s1"])
PLAN = {"goal": "The hive lives in March.", "requirements": REQUIREMENTS, "steps": [WEIGH, TREAT]}
WEIGHED = {"id": "s1", "result": "35 kilograms", "shown_by": [WINTER]}
TREATED = {"id": "s2", "result": "treated with acid", "said": "ann, on Monday"}


def verdict(score: int, *issues: Mapping[str, Json], **met: Json) -> dict[str, Json]:
    judged = [
        {"id": id_, "met": met.get(id_, "yes"), "why": "I looked", "steps": [step], "observed": "I saw it"}
        for id_, step in (("r1", "s1"), ("r2", met.get("by", "s2")))
    ]
    return {"judged": judged, "issues": list(issues), "score": score, "reasons": "The hive was weighed and treated."}


def issue(id_: str, about: str, severity: str, text: str) -> dict[str, Json]:
    return {"id": id_, "about": about, "severity": severity, "text": text}


NO_DATE = issue("i1", "r2", "major", "nobody knows when it was treated")
TOO_WARM = issue("i2", "r2", "blocking", "it was too warm for acid")

ORCHESTRATE = Script(
    "orchestrate",
    BRIEF,
    (
        call("PLANNING", "kb_search", query="bees winter"),
        submit("PLANNING", {**PLAN, "draft": True}, "recorded as a draft"),
        submit(
            "PLANNING",
            {"steps": [{**WEIGH, "depends_on": ["s2"]}]},
            "these steps wait for each other: s1 -> s2 -> s1",
            "Why: plan_invalid",
            "validation failure in VALIDATING: the plan breaks 3 rules",
        ),
        submit("IMPLEMENTING", {"steps": [WEIGH]}, "s2: Treat the mites (2 h)", "after s1"),
        call("IMPLEMENTING", "kb_read", path="notes/bees.md"),
        submit("IMPLEMENTING", {"done": [{**WEIGHED, "shown_by": [ALTERED]}]}, "word for word", "not done yet: s2"),
        submit("IMPLEMENTING", {"done": [{"id": "s1", "result": "35 kilograms"}]}, "nothing shows yet that s1 is done"),
        submit("JUDGING", {"done": [WEIGHED, TREATED]}, "fresh eyes", "only said: ann, on Monday"),
        call("JUDGING", "kb_read", path="notes/bees.md"),
        submit("JUDGING", verdict(88, NO_DATE, r2="partly"), "the score 88 does not agree", "between 55 and 70"),
        submit(
            "IMPLEMENTING",
            verdict(68, NO_DATE, r2="partly"),
            "Why: soft_failure",
            "i1 (major, about r2): nobody knows when",
            "soft failure in JUDGING: 68 of 100",
        ),
        submit("IMPLEMENTING", {"done": [TREATED]}, "the judge's issue i1 is not answered"),
        submit(
            "JUDGING",
            {"answers": [{"id": "i1", "step": "s2", "how": "the date is there"}]},
            "It was judged before",
            "soft failure in JUDGING: 68 of 100",
        ),
        call("JUDGING", "kb_read", path="notes/bees.md"),
        submit(
            "PLANNING",
            verdict(40, TOO_WARM, r2="no"),
            "Why: hard_failure",
            "i2 (blocking, about r2): it was too warm for acid",
            "hard failure in JUDGING: 40 of 100",
        ),
        submit("PLANNING", {"drop": ["s2"]}, "the judge's issue i2 is not answered"),
        submit(
            "IMPLEMENTING",
            {
                "steps": [task("s3", "Treat the mites in December", "1 h", covers=["r2"], depends_on=["s1"])],
                "answers": [{"id": "i2", "how": "it waits for the cold"}],
            },
            "s3: Treat the mites in December",
        ),
        submit(
            "IMPLEMENTING",
            {"done": [{**TREATED, "id": "s3", "shown_by": [VARROA]}]},
            "these are not steps of the plan: s2",
        ),
        submit("JUDGING", {"drop": ["s2"]}, "hard failure in JUDGING: 40 of 100"),
        call("JUDGING", "kb_read", path="notes/bees.md"),
        submit("SUCCEEDED", verdict(100, by="s3"), "The work has succeeded: 100 of 100", state="complete"),
    ),
    (
        ("PLANNING", "VALIDATING", "planned"),
        ("VALIDATING", "PLANNING", "plan_invalid"),
        ("PLANNING", "VALIDATING", "planned"),
        ("VALIDATING", "IMPLEMENTING", "plan_valid"),
        ("IMPLEMENTING", "JUDGING", "implemented"),
        ("JUDGING", "IMPLEMENTING", "soft_failure"),
        ("IMPLEMENTING", "JUDGING", "implemented"),
        ("JUDGING", "PLANNING", "hard_failure"),
        ("PLANNING", "VALIDATING", "planned"),
        ("VALIDATING", "IMPLEMENTING", "plan_valid"),
        ("IMPLEMENTING", "JUDGING", "implemented"),
        ("JUDGING", "SUCCEEDED", "passed"),
    ),
)

CANNOT = {"requirement": "r2", "why": "acid is forbidden on this roof", "shown_by": [VARROA]}
ORCHESTRATE_CANNOT = Script(
    "orchestrate",
    BRIEF,
    (
        submit(
            "PLANNING", {**PLAN, "cannot": {**CANNOT, "requirement": "r7"}}, "`cannot` names none of the requirements"
        ),
        submit("PLANNING", {"cannot": CANNOT}, "cannot be met", "acid is forbidden", state="waiting"),
        decide("PLANNING", "reject", "ask the neighbour", note="ask the neighbour"),
        submit("PLANNING", {"cannot": CANNOT}, state="waiting"),
        decide("FAILED", "approve", "r2 cannot be met, and a person agreed", state="complete"),
    ),
    (("PLANNING", "FAILED", "goal_cannot_be_met"),),
)
ORCHESTRATE_NO_FURTHER = Script(
    "orchestrate",
    BRIEF,
    (
        submit("PLANNING", {**PLAN, "steps": [WEIGH]}, "requirement r2 (No mites) is covered by no step"),
        submit("PLANNING", {}, "the same as before: 2 times in a row"),
        submit("FAILED", {"goal": "The hive lives."}, "broke the same rules 3 times in a row", state="complete"),
    ),
    (
        ("PLANNING", "VALIDATING", "planned"),
        ("VALIDATING", "PLANNING", "plan_invalid"),
        ("PLANNING", "VALIDATING", "planned"),
        ("VALIDATING", "PLANNING", "plan_invalid"),
        ("PLANNING", "VALIDATING", "planned"),
        ("VALIDATING", "FAILED", "always"),
    ),
)


def exhausted(steps: Sequence[Step], takes: Sequence[tuple[str, str, str]], source: str, **budget: int) -> Script:
    """Return a journey that uses up its budget in the phase `source`."""
    return Script(
        "orchestrate",
        BRIEF,
        steps,
        (*takes, (source, "BUDGET_EXHAUSTED", "budget_exhausted")),
        inputs={"budget": budget},
    )


PLANNED = (("PLANNING", "VALIDATING", "planned"),)
VALID = (*PLANNED, ("VALIDATING", "IMPLEMENTING", "plan_valid"))
SPENT_IN_PLANNING = exhausted(
    [submit("BUDGET_EXHAUSTED", PLAN, "of 1 tokens", state="complete")], (), "PLANNING", tokens=1
)
SPENT_IN_VALIDATING = exhausted(
    [submit("BUDGET_EXHAUSTED", {**PLAN, "steps": [WEIGH]}, "1 of 1 iterations", state="complete")],
    PLANNED,
    "VALIDATING",
    iterations=1,
)
SPENT_IN_IMPLEMENTING = exhausted(
    [
        submit("IMPLEMENTING", PLAN),
        submit("BUDGET_EXHAUSTED", {"done": [WEIGHED]}, "of 800 tokens", state="complete"),
    ],
    VALID,
    "IMPLEMENTING",
    tokens=800,
)
SPENT_IN_JUDGING = exhausted(
    [
        submit("IMPLEMENTING", PLAN),
        submit("JUDGING", {"done": [WEIGHED, TREATED]}),
        call("JUDGING", "kb_read", path="notes/bees.md"),
        submit("BUDGET_EXHAUSTED", verdict(68, NO_DATE, r2="partly"), "1 of 1 iterations", "i1", state="complete"),
    ],
    (*VALID, ("IMPLEMENTING", "JUDGING", "implemented")),
    "JUDGING",
    iterations=1,
)

SCRIPTS = (
    RESEARCH,
    BUILD,
    UNDERSTAND,
    CURATE,
    CURATE_ANSWER,
    CURATE_CHANGE,
    ORCHESTRATE,
    ORCHESTRATE_CANNOT,
    ORCHESTRATE_NO_FURTHER,
    SPENT_IN_PLANNING,
    SPENT_IN_VALIDATING,
    SPENT_IN_IMPLEMENTING,
    SPENT_IN_JUDGING,
)
