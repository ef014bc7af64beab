"""Forty honest works: short answers, numbers, code, tables, other scripts, and answers that share words or quotes for a reason."""

# ruff: noqa: E501, RUF001 - a work a line can be compared with the next; letters of other scripts are meant
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.agents.adversary import (
    CHINESE,
    COUNT,
    DAYS,
    DEAD,
    DRY,
    GROUP,
    KEPT,
    LAGER,
    LEDGER,
    MAILBOX,
    SHIFT,
    SUNDAY,
    YEDEK,
    Attempt,
    quote,
)

Json = Any

# --- research ---------------------------------------------------------------------------------------------------------


def tree(*questions: str) -> Json:
    """Return a tree with these questions, q1, q2, ..., in one category."""
    asked = [
        {"id": f"q{n}", "category": "c1", "text": text, "why": "the answer depends on it"}
        for n, text in enumerate(questions, 1)
    ]
    return {"categories": [{"id": "c1", "title": "Operations", "why": "it is what was asked"}], "questions": asked}


def answer(number: int, text: str, *citations: Mapping[str, str]) -> Json:
    return {"id": f"q{number}", "text": text, "citations": list(citations)}


def left_open(number: int, *searched: str) -> Json:
    return {"id": f"q{number}", "open": {"why": "no page mentions it", "searched": list(searched)}}


def insight(*rests_on: int, text: str = "Restoring is tested, and only few people may do it.") -> Json:
    return {"insights": [{"id": "c1", "text": text, "rests_on": [f"q{number}" for number in rests_on]}]}


NEXT: Json = {
    "adjacent_questions": [
        {"id": "a1", "text": "Who pays for the vault?", "why": "it bounds the retention", "near": "c1"},
        {"id": "a2", "text": "How is a restore audited?", "why": "few people may do it", "near": "c1"},
        {"id": "a3", "text": "What does the drill leave out?", "why": "it shows the gaps", "near": "c1"},
    ]
}
ASKED = (
    "How long are backups kept?",
    "Who may start a restore?",
    "What happens to a message after five failed deliveries?",
)
ANSWERS: Json = {
    "answers": [
        answer(1, "Backups are kept for 35 days.", KEPT),
        answer(2, "Only members of the on-call group.", GROUP),
        answer(3, "It moves to the dead-letter queue.", DEAD),
    ]
}


def research(name: str, questions: Sequence[str], answers: Sequence[Json], **more: Json) -> Attempt:
    """Return a research work with these questions and answers."""
    works = {
        "DECOMPOSE": tree(*questions),
        "ANSWER": {"answers": list(answers)},
        "RISE_ABOVE": insight(*(n for n, one in enumerate(answers, 1) if "open" not in one)),
        "EXPAND": NEXT,
    }
    return Attempt(name, "research", "How are backups kept and restored?", works, **more)


RESEARCH = research("research", ASKED, ANSWERS["answers"])
IN_FULL = ({"path": "ops/backup.md", "view": "full"}, {"path": "ops/queue.md", "view": "full"})
_RESEARCH = (
    RESEARCH,
    research("a number is the answer", ["How many days are backups kept?"], [answer(1, "35", KEPT)]),
    research(
        "one word is the answer", ["In which city is the vault with the backups?"], [answer(1, "Frankfurt", KEPT)]
    ),
    research(
        "yes, with the reason",
        ["Is the finance ledger kept longer than other backups?"],
        [answer(1, "Yes: the ledger is kept for ten years.", LEDGER)],
    ),
    research(
        "no, with the exception", ["Are all backups deleted after 35 days?"], [answer(1, "No, not the ledger.", LEDGER)]
    ),
    research(
        "code is the answer", ["Which command is run first?"], [answer(1, "`restore --from vault --dry-run`", DRY)]
    ),
    research(
        "a row of a table is quoted",
        ["What is the receive count of the queue?"],
        [answer(1, "max_receive_count is 5", COUNT)],
    ),
    research(
        "the answer has the question's words",
        ["Are backups kept for 35 days in the Frankfurt vault?"],
        [answer(1, "Backups are kept for 35 days in the Frankfurt vault.", KEPT)],
    ),
    research(
        "German",
        ["Wie lange wird die Winterdatensicherung aufbewahrt?", "Wo liegen die Winterdaten?"],
        [
            answer(1, "Zwölf Wochen.", quote("de/sicherung.md", "Sicherung", "wird zwölf Wochen lang aufbewahrt")),
            answer(2, "Im Lager Nord.", LAGER),
        ],
    ),
    research(
        "Turkish",
        ["Yedekler kaç gün saklanıyor?", "Geri yüklemeyi kim başlatır?"],
        [
            answer(1, "Otuz beş gün.", YEDEK),
            answer(
                2, "Yalnızca nöbetçi ekip.", quote("tr/yedek.md", "Yedekleme", "yalnızca nöbetçi ekip başlatabilir")
            ),
        ],
    ),
    research("Chinese", ["备份保留多久？"], [answer(1, "三十五天", CHINESE)]),
    research(
        "asked and answered in another language than the page",
        ["Wie lange werden die Sicherungen der Datenbank aufbewahrt?"],
        [answer(1, "Die Sicherungen werden fünf Wochen lang aufbewahrt, wie es auf der Seite steht.", KEPT)],
    ),
    research(
        "one sentence answers two questions",
        ["Where are the backups?", "How long do we keep backups?"],
        [answer(1, "In the Frankfurt vault.", KEPT), answer(2, "For 35 days.", KEPT)],
    ),
    research(
        "two questions have the same answer for a reason",
        ["Who may start a restore?", "Whom do I ask for a restore?"],
        [
            answer(1, "The on-call group.", GROUP),
            answer(2, "The on-call group, as in q1: only they may start one.", GROUP),
        ],
    ),
    research(
        "a question is left open after real searches",
        [*ASKED[:1], "What colour is the harbour crane in Rostock?"],
        [answer(1, "35 days", KEPT), left_open(2, "harbour crane colour", "Rostock crane paint")],
        searches=("harbour crane colour", "Rostock crane paint?"),
    ),
    research("only the section is read", ASKED[:1], [answer(1, "35 days", KEPT)]).but(
        "only the section is read", reads=({"path": "ops/backup.md", "section": "Retention"},)
    ),
    RESEARCH.but(
        "a page is read before by another section too",
        reads=(*IN_FULL, {"path": "ops/backup.md", "section": "Schedule"}),
    ),
    research(
        "two quotes belong to one answer",
        ["How long are backups and the ledger kept?"],
        [answer(1, "Backups 35 days, the ledger ten years.", KEPT, LEDGER)],
    ),
    research(
        "a quote with an ellipsis",
        ["How long are backups kept?"],
        [
            answer(
                1,
                "35 days",
                quote("ops/backup.md", "Retention", "Backups are kept for 35 days ... it is kept for ten years."),
            )
        ],
    ),
)

# --- build and understand ---------------------------------------------------------------------------------------------

BUILD = Attempt(
    "build",
    "build",
    "A runbook for restoring the order database.",
    {
        "GROUNDING": {
            "goal": "Whoever is on call can restore the order database by a runbook.",
            "concepts": [
                {"id": "k1", "text": "Restores are for the on-call group alone", "citations": [GROUP]},
                {"id": "k2", "text": "A dry run comes before a restore", "citations": [DRY]},
            ],
            "plan": [
                {"id": "s1", "step": "Write the runbook", "done_when": "it names the group and the dry run", "rests_on": ["k1", "k2"]},
                {"id": "s2", "step": "Try it", "done_when": "a dry run ends without an error", "rests_on": ["k2"]},
            ],
        },
        "MAKING": {
            "made": [
                {"id": "s1", "result": "runbook.md names both", "artefacts": ["code:runbook.md"], "observed": "I read it again: both are named"},
                {"id": "s2", "result": "It ran", "artefacts": ["code:run.log"], "observed": "exit 0 after 41 min"},
            ]
        },
    },
)  # fmt: skip
CALIBRATE: Json = {
    "goal": "Restore a database without help.",
    "knows": [{"id": "w1", "topic": "backups", "level": "some", "learner_said": "I know where they are."}],
    "objectives": [{"id": "o1", "text": "Say who may start a restore.", "source": GROUP}],
}


def asked(id_: str, question: str, said: str) -> Json:
    return {"id": id_, "question": question, "learner_answer": said, "correct": True}


UNDERSTAND = Attempt(
    "understand",
    "understand",
    "Teach me to restore a database.",
    {
        "CALIBRATE": CALIBRATE,
        "DIAGNOSE": {
            "objective": "o1",
            "diagnoses": [
                {"id": "o1", "probes": [asked("p1", "Who restores?", "on-call"), asked("p2", "And you?", "not me")]}
            ],
        },
        "TEACH": {
            "lessons": [
                {
                    "id": "o1",
                    "taught": "Only members of the on-call group start a restore; everybody else asks them.",
                    "citations": [GROUP],
                    "checks": [asked("t1", "May an intern start one?", "No"), asked("t2", "Who may?", "on-call")],
                }
            ]
        },
    },
)
_MADE = (
    BUILD,
    BUILD.but(
        "build with numbers and code",
        MAKING={
            "made": [
                {"id": "s1", "result": "`runbook.md`", "artefacts": ["code:runbook.md"], "observed": "12 passed"},
                {"id": "s2", "result": "0", "artefacts": ["code:run.log"], "observed": "41 min"},
            ]
        },
    ),
    BUILD.but(
        "build shown by a page",
        MAKING={
            "made": [
                {"id": "s1", "result": "The page has it", "shown_by": [GROUP]},
                {"id": "s2", "result": "It ran", "artefacts": ["code:run.log"], "observed": "no error in the log"},
            ]
        },
    ),
    UNDERSTAND,
)

# --- a team's agent ---------------------------------------------------------------------------------------------------

FRAME: Json = {
    "question": "Do we keep backups longer?",
    "criteria": [{"id": "c1", "text": "audits pass"}, {"id": "c2", "text": "storage costs less than now"}],
    "options": [{"id": "o1", "text": "Keep 35 days"}, {"id": "o2", "text": "Keep 90 days"}],
}
WEIGHED: Json = {
    "weighed": [
        {"id": "w1", "option": "o1", "for": "cheap", "against": "audits ask for 90", "evidence": [KEPT]},
        {"id": "w2", "option": "o2", "for": "audits pass", "against": "triple the storage"},
    ],
    "choice": {"option": "o2", "reason": "c1 outweighs c2"},
}
DECIDE = Attempt(
    "decide", "decide", "Retention of backups.", {"FRAME": FRAME, "WEIGH": WEIGHED}, {"page": "decisions/1.md"}
)
_DECIDED = (
    DECIDE,
    DECIDE.but(
        "options that differ by a number",
        FRAME={**FRAME, "options": [{"id": "o1", "text": "7"}, {"id": "o2", "text": "14"}]},
    ),
    DECIDE.but(
        "options of two letters and one",
        FRAME={**FRAME, "options": [{"id": "o1", "text": "Rewrite it in Go"}, {"id": "o2", "text": "Rewrite it in C"}]},
    ),
)

# --- cognitive agents -------------------------------------------------------------------------------------------------

CLARIFICATION = Attempt(
    "clarification",
    "clarification",
    "Keep backups longer, so that audits pass.",
    {
        "READ": {
            "goal": "Audits pass because backups are there.",
            "points": [
                {"id": "p1", "words": "Keep backups longer", "means": "more days than now"},
                {"id": "p2", "words": "so that audits pass", "means": "auditors decide what is enough"},
            ],
        },
        "DOUBT": {
            "unclear": [
                {"id": "u1", "point": "p1", "what": "how long", "readings": ["90 days", "a year"], "matters": "what the vault costs"}
            ]
        },
        "ASK": {
            "questions": [],
            "assumptions": [{"id": "a1", "about": "u1", "text": "90 days are meant.", "because": "the last audit asked for them"}],
        },
        "SETTLE": {"settled": []},
        "SPECIFY": {
            "goal": "Audits pass because backups are kept for 90 days.",
            "requirements": [
                {"id": "r1", "text": "Backups are kept for 90 days.", "from": ["p1", "a1"], "test": "Restore one of day 90."},
                {"id": "r2", "text": "The next audit accepts it.", "from": ["p2"], "test": "Its report has no finding on backups."},
            ],
            "left_out": [],
        },
    },
)  # fmt: skip
FINDING = Attempt(
    "research-cognitive",
    "research-cognitive",
    "How are backups kept, and what fails?",
    {
        "QUESTIONS": {
            "questions": [
                {
                    "id": "q1",
                    "text": "How long are backups kept?",
                    "why": "audits ask",
                    "done_when": "a number of days",
                },
                {
                    "id": "q2",
                    "text": "Why was the May alarm lost?",
                    "why": "it delays restores",
                    "done_when": "a cause",
                },
            ]
        },
        "PLAN": {
            "searches": [
                {"id": "s1", "question": "q1", "query": "backup retention", "aim": "find", "where": "ops"},
                {"id": "s2", "question": "q2", "query": "alarm acknowledged", "aim": "refute", "where": "ops"},
            ]
        },
        "GATHER": {
            "evidence": [
                {"id": "e1", "question": "q1", "search": "s1", "claim": "35 days", "quotes": [KEPT]},
                {
                    "id": "e2",
                    "question": "q2",
                    "search": "s2",
                    "claim": "It went to an unread mailbox.",
                    "quotes": [MAILBOX],
                },
            ]
        },
    },
    searches=("backup retention",),
)
ANALYSIS = Attempt(
    "analysis",
    "analysis",
    "Alarms are missed at night. What do we change?",
    {
        "DECOMPOSE": {
            "question": "What keeps alarms from being missed at night?",
            "parts": [{"id": "p1", "text": "Who hears an alarm"}, {"id": "p2", "text": "Where it goes next", "needs": ["p1"]}],
        },
        "BOUND": {
            "constraints": [{"id": "c1", "part": "p2", "text": "Ten minutes, then the second shift.", "evidence": [SHIFT]}],
            "assumptions": [{"id": "a1", "part": "p1", "text": "Phones are charged.", "if_wrong": "nobody hears it"}],
        },
        "DRIVERS": {
            "drivers": [
                {"id": "d1", "part": "p1", "text": "Alarms went to a mailbox", "because": "it was never moved", "rests_on": "evidence", "evidence": [MAILBOX]},
                {"id": "d2", "part": "p2", "text": "People sleep", "because": "night", "rests_on": "assumption", "assumption": "a1"},
            ]
        },
        "WEIGH": {
            "options": [
                {"id": "o1", "text": "Ring the phones"},
                {"id": "o2", "text": "Change nothing"},
                {"id": "o3", "text": "Pay a night shift"},
            ],
            "trade_offs": [
                {"id": "t1", "option": "o1", "driver": "d1", "gains": "somebody hears it", "costs": "one evening of work"},
                {"id": "t2", "option": "o2", "driver": "d2", "gains": "nothing", "costs": "an outage a year"},
                {"id": "t3", "option": "o3", "driver": "d2", "gains": "awake people", "costs": "90,000 a year"},
            ],
            "broken": [],
        },
        "CONCLUDE": {
            "conclusions": [
                {"id": "n1", "part": "p1", "text": "The mailbox is the cause.", "rests_on": ["d1", "t1"], "confidence": 85, "would_change": "a missed call"},
                {"id": "n2", "part": "p2", "text": "The second shift suffices.", "rests_on": ["c1"], "confidence": 60, "would_change": "two misses in a row"},
            ],
            "recommended": {"option": "o1", "because": "t1 costs least"},
            "risks": [{"id": "k1", "text": "Flat batteries", "likely": "low", "answer": "a weekly test call"}],
        },
    },
)  # fmt: skip
SYNTHESIS = Attempt(
    "synthesis",
    "synthesis",
    "Alarms must reach a person. Design it.",
    {
        "COLLECT": {
            "topics": [{"id": "t1", "text": "Where does an alarm go?"}],
            "positions": [
                {"id": "p1", "topic": "t1", "text": "To the second shift.", "source": "ops/alarms.md", "evidence": [SHIFT]},
                {"id": "p2", "topic": "t1", "text": "Not to a mailbox.", "source": "ops/alarms.md", "evidence": [MAILBOX]},
            ],
            "constraints": [{"id": "c1", "text": "A person is reached.", "words": "Alarms must reach a person"}],
        },
        "RECONCILE": {
            "topics": [{"id": "t1", "relation": "agree", "keeps": ["p1", "p2"], "holds": "People first, mail never."}]
        },
        "INTEGRATE": {
            "design": "A phone rings, and after ten minutes the next one does.",
            "parts": [{"id": "d1", "text": "A list of phones by shift", "settles": ["t1"]}],
        },
        "CONSTRAIN": {"checks": [{"id": "c1", "result": "kept", "parts": ["d1"], "how": "d1 lists only people"}]},
        "DECIDE": {
            "decisions": [
                {"id": "e1", "part": "d1", "text": "Phones by shift", "because": "p1", "rests_on": ["p1"], "instead_of": "Mail"}
            ]
        },
    },
)  # fmt: skip
GENERATION = Attempt(
    "generation",
    "generation",
    "A card for the wall: how long backups are kept, and who may restore.",
    {
        "SPECIFY": {
            "items": [
                {"id": "s1", "text": "Says how long backups are kept", "check": "a number of days", "words": "how long backups are kept"},
                {"id": "s2", "text": "Says who may restore", "check": "a group is named", "words": "who may restore"},
            ]
        },
        "PLAN": {"parts": [{"id": "m1", "what": "The card", "items": ["s1", "s2"], "as": "text"}]},
        "PRODUCE": {"made": [{"id": "m1", "as": "text", "text": "Backups: 35 days.\nRestore: the on-call group only."}]},
        "REVIEW": {
            "reviews": [
                {"id": "s1", "result": "met", "why": "35 days", "words": "Backups: 35 days."},
                {"id": "s2", "result": "met", "why": "the group is named", "words": "the on-call group only"},
            ]
        },
        "DELIVER": {
            "summary": "A card of two lines.",
            "notes": [{"id": "n1", "part": "m1", "use": "Print it."}],
            "limits": ["none beyond backups"],
        },
    },
)  # fmt: skip
CARD = "Backups: 35 days.\nRestore: the on-call group only, after a dry run."
VALIDATION = Attempt(
    "validation",
    "validation",
    "The card must say how long backups are kept. It must say who may restore.",
    {
        "CRITERIA": {
            "criteria": [
                {"id": "k1", "text": "Says how long backups are kept", "weight": "must", "test": "look for days", "words": "how long backups are kept"},
                {"id": "k2", "text": "Says who may restore", "weight": "must", "test": "look for a group", "words": "who may restore"},
            ]
        },
        "EXAMINE": {
            "evidence": [
                {"id": "v1", "criterion": "k1", "shows": "holds", "text": "35", "words": "Backups: 35 days."},
                {"id": "v2", "criterion": "k2", "shows": "holds", "text": "a group", "words": "the on-call group only"},
            ]
        },
        "JUDGE": {
            "verdicts": [
                {"id": "k1", "verdict": "met", "rests_on": ["v1"], "why": "days are named"},
                {"id": "k2", "verdict": "met", "rests_on": ["v2"], "why": "v2 names the group"},
            ]
        },
        "CONCLUDE": {"verdict": "pass", "summary": "Both are there; prices were not checked."},
    },
    {"artifact": CARD},
)  # fmt: skip
_THOUGHT = (CLARIFICATION, FINDING, ANALYSIS, SYNTHESIS, GENERATION, VALIDATION)
_VARIED = (
    ANALYSIS.but(
        "options named by one word",
        WEIGH={
            **ANALYSIS.works["WEIGH"],
            "options": [{"id": "o1", "text": "Redis"}, {"id": "o2", "text": "SQL"}, {"id": "o3", "text": "Kafka"}],
        },
    ),
    GENERATION.but(
        "code is made",
        PRODUCE={
            "made": [
                {
                    "id": "m1",
                    "as": "text",
                    "text": "| backups | 35 days |\n|---|---|\n| restore | the on-call group only |",
                }
            ]
        },
        REVIEW={
            "reviews": [
                {"id": "s1", "result": "met", "why": "35", "words": "| backups | 35 days |"},
                {"id": "s2", "result": "met", "why": "the group", "words": "| restore | the on-call group only |"},
            ]
        },
    ),
    SYNTHESIS.but(
        "design in German",
        INTEGRATE={
            "design": "Erst klingelt ein Telefon, nach zehn Minuten das nächste.",
            "parts": [{"id": "d1", "text": "Telefonliste je Schicht", "settles": ["t1"]}],
        },
    ),
    CLARIFICATION.but(
        "nothing is unclear",
        DOUBT={"unclear": [], "nothing_unclear": "The audit report names the days."},
        ASK={"questions": [], "assumptions": []},
        SPECIFY={
            "goal": "Audits pass.",
            "requirements": [
                {"id": "r1", "text": "90 days", "from": ["p1"], "test": "Restore day 90."},
                {"id": "r2", "text": "The audit accepts it", "from": ["p2"], "test": "No finding."},
            ],
        },
    ),
    VALIDATION.but(
        "a verdict that a must is not met",
        EXAMINE={
            "evidence": [
                {"id": "v1", "criterion": "k1", "shows": "holds", "text": "35", "words": "Backups: 35 days."},
                {
                    "id": "v2",
                    "criterion": "k2",
                    "shows": "fails",
                    "text": "no names",
                    "words": "the on-call group only",
                },
            ]
        },
        JUDGE={
            "verdicts": [
                {"id": "k1", "verdict": "met", "rests_on": ["v1"], "why": "35"},
                {"id": "k2", "verdict": "not_met", "rests_on": ["v2"], "why": "nobody knows the names"},
            ]
        },
        CONCLUDE={
            "verdict": "fail",
            "summary": "Names are missing.",
            "to_do": [{"id": "d1", "criterion": "k2", "what": "Name the people."}],
        },
    ),
    FINDING.but(
        "two claims of one quote",
        GATHER={
            "evidence": [
                *FINDING.works["GATHER"]["evidence"],
                {"id": "e3", "question": "q1", "search": "s1", "claim": "They are in Frankfurt.", "quotes": [KEPT]},
            ]
        },
    ),
    UNDERSTAND.but(
        "taught in three words",
        TEACH={
            "lessons": [
                {**UNDERSTAND.works["TEACH"]["lessons"][0], "taught": "On-call members only."},
            ]
        },
    ),
    research("a time of day", ["When does the full backup run?"], [answer(1, "Sunday, 02:00", SUNDAY)]),
    research(
        "both limits of the queue", ["How many days does the queue keep a message?"], [answer(1, "14 days", DAYS)]
    ),
)
HONEST = (*_RESEARCH, *_MADE, *_DECIDED, *_THOUGHT, *_VARIED)
ENDS = {"research-cognitive": "WEIGH", "decide": "WRITE"}
"""Works that show their point before the end: the phase to which they lead."""
