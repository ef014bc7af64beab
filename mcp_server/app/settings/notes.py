"""Remarks on settings that are probably mistakes but don't keep the server from starting. Pure; no value is repeated."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from knowledge.extras import install_command
from mcp_server.app.settings.services import SERVICE_VARIABLES
from mcp_server.app.settings.settings import BY_FIELD, VARIABLES, missing_for_model
from mcp_server.connectors.zulip.mailbox import mailbox

LIKELY_OURS = 0.85
"""Other programs have variables for these services too. A name this similar to ours (difflib's ratio) is probably a typo."""


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Name variables that look like ours but aren't: probably typos, but no reason not to start."""
    known = {v.name for v in VARIABLES} | {"FORGE_CONFIG"}
    notes = []
    for name in sorted(set(environ) - known):
        if name.startswith("FORGE_"):
            near = difflib.get_close_matches(name, known, n=1)
            notes.append(f"{name} is not a setting of knowledge-forge{f'; did you mean {near[0]}?' if near else ''}")
        elif (
            name.startswith(tuple(its.prefix for its in SERVICE_VARIABLES.values()))
            and (ours := next(iter(difflib.get_close_matches(name, known, n=1, cutoff=LIKELY_OURS)), None))
            and not environ.get(ours)
        ):
            notes.append(f"{name} is not a setting of knowledge-forge; did you mean {ours}?")
    return notes


def unlimited_services(environ: Mapping[str, str], values: Mapping[str, Any]) -> list[str]:
    """Name limits that are set but empty. An empty limit restricts nothing, though its author may have meant to allow nothing."""
    return [
        f"{its.limit} is set but empty, which sets no limit: all {its.limited} that the key can see may be used; name some"
        for service, its in SERVICE_VARIABLES.items()
        if its.limit
        and environ.get(its.limit) == ""
        and values.get(its.limit.lower()) is None
        and not missing_for_service(service, values)
    ]


def missing_for_service(service: str, values: Mapping[str, Any]) -> list[str]:
    """Return the variables that are missing for the service to be configured."""
    given = {variable.name for field, variable in BY_FIELD.items() if values.get(field)}
    return [name for name in SERVICE_VARIABLES[service].required if name not in given]


def service_notes(values: Mapping[str, Any]) -> list[str]:
    """Name settings of services that are missing or have no effect.

    Other programs use these variables, too, so an incomplete set of them is no reason not to start.
    """
    notes = []
    for service, its in SERVICE_VARIABLES.items():
        missing = missing_for_service(service, values)
        if not missing:
            continue
        if len(missing) < len(its.required):
            notes.append(f"{its.title} is not configured: {named(missing)} not set")
        if service in (values.get("toolsets") or ()):
            notes.append(f"the toolset {service} has no tools here: set {listed(its.required)}")
    return [*notes, *_about_reviews(values)]


def _about_reviews(values: Mapping[str, Any]) -> Iterable[str]:
    reviews, reviewers = values.get("zulip_reviews"), values.get("zulip_reviewers") or ()
    if (reviews or reviewers) and missing_for_service("zulip", values):
        yield "proposals are not announced in Zulip, because Zulip is not configured"
    elif reviewers and not reviews:
        yield "ZULIP_REVIEWERS has no effect without ZULIP_REVIEWS, the channel and topic in which proposals are announced"
    elif reviews and (values.get("zulip_read_only") or values.get("read_only")):
        yield "proposals are not announced in Zulip: ZULIP_REVIEWS would write there, and only reading is allowed"
    if mailbox(str(values.get("zulip_email", ""))) in reviewers:
        yield "ZULIP_REVIEWERS names ZULIP_EMAIL: reactions of the server's own account never decide"


NEEDS_MODEL: Final[Mapping[str, str]] = {
    "model_key_file": "FORGE_MODEL_KEY_FILE",
    "model_prices": "FORGE_MODEL_PRICES",
    "model_helps": "FORGE_MODEL_HELPS",
    "run_tokens": "FORGE_RUN_TOKENS",
    "run_answer_tokens": "FORGE_RUN_ANSWER_TOKENS",
    "run_context_tokens": "FORGE_RUN_CONTEXT_TOKENS",
    "run_cost": "FORGE_RUN_COST",
    "run_day_tokens": "FORGE_RUN_DAY_TOKENS",
    "run_day_cost": "FORGE_RUN_DAY_COST",
}
"""Settings that have no effect without a language model."""


def model_notes(values: Mapping[str, Any], installed: Callable[[str], bool]) -> list[str]:
    """Name settings of a language model that are missing or have no effect. `installed` says whether a package is installed."""
    model, missing = values.get("model"), missing_for_model(values)
    notes = []
    if model is None and (idle := [name for field, name in NEEDS_MODEL.items() if values.get(field)]):
        notes.append(f"{listed(idle)} {'has' if len(idle) == 1 else 'have'} no effect without FORGE_MODEL")
    elif model is not None and missing:
        notes.append(f"no language model is used: {named(missing)} not set, nor is FORGE_MODEL_KEY_FILE")
    elif model is not None and not installed(model.company):
        notes.append(f"the language model cannot be used: its package is missing; {install_command(model.company)}")
    if missing and "runs" in (values.get("toolsets") or ()):
        notes.append(f"the toolset runs has no tools here: set {listed(missing)}")
    if model is not None and not priced(model.model, values.get("model_prices") or ()):
        notes += _unpriced(values)
    return notes


def _unpriced(values: Mapping[str, Any]) -> Iterable[str]:
    """Name cost limits that stop runs because the model has no price."""
    if values.get("run_day_cost"):
        yield (
            "no run can start: FORGE_RUN_DAY_COST limits the cost of all runs, and no price in FORGE_MODEL_PRICES fits the model"
        )
    elif values.get("run_cost"):
        yield (
            "runs end after one answer: FORGE_RUN_COST limits their cost, and no price in FORGE_MODEL_PRICES fits the model"
        )


def priced(model: str, prices: Iterable[Any]) -> bool:
    """Return whether a price fits the model."""
    return any(fnmatchcase(model, price.pattern) for price in prices)


def named(names: Collection[str]) -> str:
    """Return the names with their verb: `A is`, `A and B are`."""
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def listed(names: Collection[str]) -> str:
    """Return the names as part of a sentence: `A, B and C`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
