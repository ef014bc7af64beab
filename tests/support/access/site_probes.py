"""Random addresses and forms of the site, as somebody would guess them who wants to know what is hidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote, urlencode

from tests.support.access.people_base import CANARIES
from tests.support.access.probes import REVISION, Prober

Query = Callable[[Prober], Mapping[str, str]]
CHANGES: Final = ("<change>", "<hidden-change>", "<no-change>")
PROPOSALS: Final = ("<proposal>", "<own-proposal>", "<hidden-proposal>", "<no-proposal>")
JOURNEYS: Final = ("research-own", "research-owner", "research-none")
RUNS: Final = ("run-own", "run-hidden", "run-none")
NUMBERS: Final = ("1", "2", "3", "4", "5", "99")
REVISIONS: Final = ("<before>", "<after>", "now", "none", REVISION)

QUERIES: Final[Mapping[str, Query]] = {
    "/": lambda _: {},
    "/waiting": lambda p: p.any({}, {"select": "all"}),
    "/health": lambda p: {"show": p.any("stale", "orphans", "lost", "unverified")},
    "/find": lambda p: {
        "q": p.query(),
        **p.any({}, {"part": "results"}, {"path": p.folder()}, {"tag": p.any("plans", *CANARIES.values())}),
        **p.any({}, {}, {"who": "outside"}, {"source": p.source()}),
    },
    "/decided": lambda p: p.any({}, {"before": p.any(*PROPOSALS)}),
    "/together": lambda p: {"p": p.any(*PROPOSALS)},
    "/journeys": lambda p: p.any({}, {"state": "active"}, {"before": p.any(*JOURNEYS)}),
    "/runs": lambda p: p.any({}, {"state": "running"}),
    "/pages": lambda p: {"path": p.any(p.folder(), p.path()), **p.any({}, {"part": "list"})},
    "/recent": lambda _: {},
    "/tags": lambda p: p.any({}, {"tag": p.any("plans", "money", "shared", *CANARIES.values())}),
    "/page": lambda p: {"path": p.name(), **p.any({}, {"view": "source"}, {"saved": p.any(*CHANGES)})},
    "/page/edit": lambda p: {"path": p.name()},
    "/page/new": lambda p: {"path": p.name()},
    "/file": lambda p: {"path": p.any(p.path(), p.name())},
    "/graph": lambda p: p.any({}, {"path": p.name()}, {"path": p.path(), "steps": "2"}),
    "/graph/data": lambda p: p.any({}, {"current": "1"}),
    "/history": lambda p: {
        "path": p.any("", p.folder(), p.name()),
        **p.any({}, {"who": "outside"}, {"since": "1d"}, {"undone": p.any(*CHANGES)}),
    },
    "/history/lines": lambda p: {"path": p.name()},
    "/history/links": lambda p: {"change": p.any(*CHANGES)},
    "/diff": lambda p: {
        "path": p.any(p.name(), "plans/launch.md"),
        **p.any({}, {"change": p.any(*CHANGES)}, {"from": p.any(*REVISIONS), "to": p.any(*REVISIONS)}),
        **p.any({}, {"as": "text"}),
    },
    "/undo": lambda p: p.any({}, {"change": p.any(*CHANGES)}),
    "/audit": lambda p: p.any({}, {"q": p.query()}),
    "/contradictions": lambda p: p.any({}, {"path": p.any(p.folder(), p.path())}, {"dismissed": "1"}, {"settled": "1"}),
    "/trust": lambda _: {},
    "/trust/host": lambda _: {},
    "/people": lambda _: {},
    "/state": lambda _: {},
    "/state/outcome": lambda _: {},
    "/passkeys": lambda _: {},
}
"""By address the parameters of a probe."""
IDS: Final[Mapping[str, tuple[str, ...]]] = {
    "/proposals/{id}": PROPOSALS,
    "/proposals/{id}/edit": PROPOSALS,
    "/journeys/{id}": JOURNEYS,
    "/runs/{id}": RUNS,
    "/runs/{id}/answer": RUNS,
    "/audit/{id}": NUMBERS,
    "/contradictions/{id}": NUMBERS,
    "/contradictions/{id}/edit": NUMBERS,
}
STREAMS: Final = frozenset({"/events", "/journeys/{id}/events"})
"""Read by a test of their own, since they don't end."""
FORMS: Final[Mapping[str, Query]] = {
    "/page/edit": lambda p: {
        "path": p.path(),
        "base": p.any(REVISION, "<before>"),
        "text": p.content(),
        "do": p.any("preview", "take"),
    },
    "/page/new": lambda p: {"path": p.any(p.path(), p.folder() or "x"), "text": p.content(), "do": "preview"},
    "/undo": lambda p: {"change": p.any("<hidden-change>", "<no-change>"), "digest": "0" * 64},
    "/history/links": lambda p: {"change": p.any(*CHANGES), "digest": "0" * 64},
    "/together": lambda p: {f"take.{p.any('<hidden-proposal>', '<no-proposal>')}": "1", "decision": "reject"},
}
FORM_IDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        f"/proposals/{{id}}/{what}": ("<hidden-proposal>", "<no-proposal>")
        for what in ("approve", "reject", "changes", "renew", "edit")
    },
    **{
        f"/journeys/{{id}}/{what}": ("research-owner", "research-none")
        for what in ("keep", "approve", "modify", "reject", "answer", "revisit", "cancel")
    },
    **{f"/runs/{{id}}/{what}": ("run-hidden", "run-none") for what in ("answer", "cancel")},
    **{f"/contradictions/{{id}}/{what}": ("90", "99") for what in ("keep", "dismiss", "reopen", "propose", "edit")},
}
"""Forms about one record: the ids are those of hidden ones, and of none."""
FORM_FIELDS: Final[Mapping[str, str]] = {
    "hash": "0" * 64,
    "note": "no",
    "version": "1",
    "answer": "yes",
    "choice": "first",
    "reason": "no",
    "path": "plans/result.md",
    "sure": "1",
    "phase": "ROUTE",
    "changes": "{}",
}


def address(prober: Prober, route: str) -> str:
    """Return an address of that route."""
    if route in IDS:
        return route.replace("{id}", prober.any(*IDS[route]))
    query = urlencode(dict(QUERIES[route](prober)), safe="<> ", quote_via=quote).replace(" ", "%20")
    return f"{route}?{query}" if query else route


def form(prober: Prober, route: str) -> tuple[str, Mapping[str, str]]:
    """Return an address that takes a form, and the fields of one."""
    if route in FORM_IDS:
        return route.replace("{id}", prober.any(*FORM_IDS[route])), FORM_FIELDS
    return route, FORMS[route](prober)
