"""What a person should hear about their settings although nothing is wrong enough to stop for. Pure; no value is repeated."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from mcp_server.app.settings.variables import BY_FIELD, VARIABLES
from mcp_server.connectors.zulip.mailbox import mailbox

TOGETHER: Final[Mapping[str, tuple[str, ...]]] = {
    "plane": ("PLANE_BASE_URL", "PLANE_API_KEY", "PLANE_WORKSPACE"),
    "zulip": ("ZULIP_SITE", "ZULIP_EMAIL", "ZULIP_API_KEY"),
}
"""The variables that a service is configured with, by its toolset."""
CALLED: Final[Mapping[str, str]] = {"plane": "Plane", "zulip": "Zulip"}


LIMITS: Final[Mapping[str, str]] = {"PLANE_PROJECTS": "projects", "ZULIP_CHANNELS": "channels"}
"""The variables that keep hosts away from what a key could reach, and from what."""
OTHERS_TOO = 0.85
"""Other programs have variables of these services as well; ones so much alike (difflib's ratio) are likely meant as ours."""


def strangers(environ: Mapping[str, str]) -> list[str]:
    """Name variables that begin like ours and are not: most likely a typing error, so it is said, not refused."""
    known = {v.name for v in VARIABLES} | {"FORGE_CONFIG"}
    notes = []
    for name in sorted(set(environ) - known):
        near = difflib.get_close_matches(name, known, n=1)
        if name.startswith("FORGE_"):
            notes.append(f"{name} is not a setting of knowledge-forge{f'; did you mean {near[0]}?' if near else ''}")
        elif name.startswith(("PLANE_", "ZULIP_")) and (ours := _meant(name, known)) and not environ.get(ours):
            notes.append(f"{name} is not a setting of knowledge-forge; did you mean {ours}?")
    return notes


def _meant(name: str, known: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=OTHERS_TOO)), None)


def no_limits(environ: Mapping[str, str], values: Mapping[str, Any]) -> list[str]:
    """Name lists that are there and empty: whoever meant that nothing may be used has to hear that all may be."""
    return [
        f"{name} is set and empty, which is no limit: all {what} that the key sees may be used; name some"
        for name, what in LIMITS.items()
        if environ.get(name) == ""
        and values.get(name.lower()) is None
        and not lacking(name.split("_")[0].lower(), values)
    ]


def lacking(service: str, values: Mapping[str, Any]) -> list[str]:
    """Return the variables without which the service is not configured."""
    given = {variable.name for field, variable in BY_FIELD.items() if values.get(field)}
    return [name for name in TOGETHER[service] if name not in given]


def about_services(values: Mapping[str, Any]) -> list[str]:
    """Say what of Plane's and Zulip's settings has no effect, and what it lacks.

    Other programs use these variables, too, so half of them is no mistake that the start would be refused for.
    """
    notes = []
    for service, names in TOGETHER.items():
        missing = lacking(service, values)
        if not missing:
            continue
        if len(missing) < len(names):
            notes.append(f"{CALLED[service]} is not configured: {named(missing)} not set")
        if service in (values.get("toolsets") or ()):
            notes.append(f"the toolset {service} has no tools here: set {listed(names)}")
    return [*notes, *_about_reviews(values)]


def _about_reviews(values: Mapping[str, Any]) -> Iterable[str]:
    reviews, reviewers = values.get("zulip_reviews"), values.get("zulip_reviewers") or ()
    if (reviews or reviewers) and lacking("zulip", values):
        yield "nobody is told of proposals in Zulip, which is not configured"
    elif reviewers and not reviews:
        yield "ZULIP_REVIEWERS has no effect without ZULIP_REVIEWS, the channel and topic that hear of proposals"
    elif reviews and (values.get("zulip_read_only") or values.get("read_only")):
        yield "nobody is told of proposals in Zulip: ZULIP_REVIEWS would write there, and only reading is allowed"
    if mailbox(str(values.get("zulip_email", ""))) in reviewers:
        yield "ZULIP_REVIEWERS names ZULIP_EMAIL: reactions of the account that the server itself uses never decide"


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
"""The settings that say something about a language model, and name none."""


def lacking_model(values: Mapping[str, Any]) -> list[str]:
    """Return the variables without which no language model is asked."""
    model = values.get("model")
    if model is None:
        return ["FORGE_MODEL"]
    if values.get("model_key"):
        return []
    if model.company == "anthropic":
        return [] if values.get("anthropic_api_key") else ["ANTHROPIC_API_KEY"]
    return [] if values.get("openai_api_key") or values.get("openai_base_url") else ["OPENAI_API_KEY"]


def about_model(values: Mapping[str, Any], installed: Callable[[str], bool]) -> list[str]:
    """Say what of a language model's settings has no effect, and what it lacks. `installed` says whether a package is there."""
    model, missing = values.get("model"), lacking_model(values)
    notes = []
    if model is None and (idle := [name for field, name in NEEDS_MODEL.items() if values.get(field)]):
        notes.append(f"{listed(idle)} {'has' if len(idle) == 1 else 'have'} no effect without FORGE_MODEL")
    elif model is not None and missing:
        notes.append(f"no language model is asked: {named(missing)} not set, nor is FORGE_MODEL_KEY_FILE")
    elif model is not None and not installed(model.company):
        notes.append(
            f"the language model cannot be asked: its package is missing; pip install 'knowledge-forge[{model.company}]'"
        )
    if missing and "runs" in (values.get("toolsets") or ()):
        notes.append(f"the toolset runs has no tools here: set {listed(missing)}")
    if model is not None and not priced(model.model, values.get("model_prices") or ()):
        notes += _unpriced(values)
    return notes


def _unpriced(values: Mapping[str, Any]) -> Iterable[str]:
    """Say which bounds on costs keep runs from their goals because the model has no price."""
    if values.get("run_day_cost"):
        yield (
            "no run is begun: FORGE_RUN_DAY_COST bounds the cost of all, and no price in FORGE_MODEL_PRICES fits the model"
        )
    elif values.get("run_cost"):
        yield (
            "runs end after one answer: FORGE_RUN_COST bounds their cost, and no price in FORGE_MODEL_PRICES fits the model"
        )


def priced(model: str, prices: Iterable[Any]) -> bool:
    """Return whether a model has a price."""
    return any(fnmatchcase(model, price.pattern) for price in prices)


def named(names: Collection[str]) -> str:
    """Return the names and the verb that fits: `A is`, `A and B are`."""
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def listed(names: Collection[str]) -> str:
    """Return the names as a sentence has them: `A, B and C`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
