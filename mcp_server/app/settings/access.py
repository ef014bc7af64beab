"""How the language model is reached, and the limits that the settings put on that."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from mcp_server.app.settings.values import LanguageModelName, ModelPrice


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """How to reach a language model, and its limits. Without an `address` it is the vendor's own. `helps` lists other uses than runs.

    `key_setting` and `address_setting` name the variables to check when it can't be reached. `run_tokens` and `run_cost` (in the
    currency of the prices) limit each run, `run_day_tokens` and `run_day_cost` all runs together.
    """

    name: LanguageModelName
    key: str | None = field(repr=False)
    address: str | None = None
    helps: tuple[str, ...] = ()
    key_setting: str = "FORGE_MODEL_KEY_FILE"
    address_setting: str = ""
    prices: tuple[ModelPrice, ...] = ()
    run_tokens: int | None = None
    run_answer_tokens: int = 8_192
    run_context_tokens: int = 24_000
    run_cost: Decimal | None = None
    run_day_tokens: int | None = None
    run_day_cost: Decimal | None = None
