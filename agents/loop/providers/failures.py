"""Reading failed requests in every vendor's format, and classifying them. Pure.

Anthropic: `{"type": "error", "error": {"type", "message", "details": {"error_code"}}, "request_id"}`.
OpenAI: `{"error": {"message", "type", "param", "code"}}`. Gemini: a list of one such, with status 400 for a wrong key. Self-hosted
servers send these, a bare text, `{"detail": ...}`, or the error without its wrapper; Mistral, and anything built with FastAPI, list
the wrong parts where others have a sentence. Sentences help to classify the failure and are repeated nowhere: they may quote a prompt.
Source: https://platform.claude.com/docs/en/api/errors and https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from agents.loop.model.ports import ModelUsage
from knowledge.index.embed.endpoint_wire import retry_after_s

Kind = Literal["away", "limited", "spent", "overloaded", "key", "long", "refused", "rejected", "malformed"]

# 520 to 524 are Cloudflare's statuses for a server behind it, 529 is Anthropic's for overload.
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
MENDABLE = frozenset({400, 404, 422, 500, 501})
"""The statuses of a server that does not know a part of the request; 500 is llama.cpp without --jinja."""

STATUS_OF = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status of each error word, because an error inside a stream comes after a 200. Source: the vendors' pages above."""

SPENT = frozenset(
    {
        "insufficient_quota",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "billing_error",
        "billing_hard_limit_reached",
    }
)
SPENT_WORDS = re.compile(
    r"credit balance is too low|specified (workspace )?api usage limits|exceeded your current quota", re.IGNORECASE
)
WAIT_WORDS = re.compile(r"\b(?:retry|try again) in (\d{1,9}(?:\.\d+)?)(m?s)\b", re.IGNORECASE)
"""Gemini's words for when to retry. It sends no header, and the rest of its text is what others send for an empty account."""
LONG = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
LONG_WORDS = re.compile(
    r"prompt (is )?too long|max(imum)? context length|exceeds? (the )?(available )?context (limit|size|window|length)|context window"
    # LM Studio, SGLang, TGI and TabbyAPI.
    r"|(greater|longer) than the (model's )?context length|context the overflows|max_new_tokens` must be|inputs` must have less than"
    r"|greater than max_seq_len",
    re.IGNORECASE,
)
ANSWER_WORDS = re.compile(
    r"\bmax_(completion_|output_)?tokens\b.{0,20}(>|too large|less than or equal|at most)", re.IGNORECASE
)
KEY_WORDS = re.compile(
    r"\bapi[ _]key\b.{0,20}\b(not valid|invalid|expired)|\b(invalid|incorrect) api[ _]key\b", re.IGNORECASE
)
ROOM = re.compile(
    r"(?:context length (?:is|of(?: only)?|\()|context size \(|context window of|max_new_tokens` must be <=|have less than"
    r"|max_seq_len|>)\s*([\d,]{3,})"
)
REFUSED = frozenset(
    {"content_filter", "content_policy_violation", "bio_policy", "misalignment_policy_violation", "invalid_prompt"}
)
MOST_PARTS = 20
HARMLESS_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,59}")


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """One try without an answer. For status 0 (nothing came) and 200 (unusable) `why` says in our words what happened.

    `code` is the vendor's word, if it is one word and not a sentence. `again` is the server's own statement on whether
    to retry, or None without one. `room` is the size of the context window. `sent` is False only if the server
    certainly never saw the request.
    """

    status: int = 0
    code: str = ""
    param: str = ""
    message: str = field(default="", repr=False)
    why: str = ""
    wait_s: float | None = None
    again: bool | None = None
    room: int | None = None
    sent: bool = True
    usage: ModelUsage = field(default_factory=ModelUsage)

    @property
    def kind(self) -> Kind:
        """The kind of failure, as far as it makes a difference to callers."""
        if self.status == 0:
            return "away"
        if self.status == 200:
            return "malformed"
        # Before the limits: OpenAI answers 429 for an empty account too, where waiting does not help.
        if self.status == 402 or self.code in SPENT:
            return "spent"
        if self.status < 500 and SPENT_WORDS.search(self.message) and not WAIT_WORDS.search(self.message):
            return "spent"
        if self.code in LONG or self.status == 413 or (self.status in MENDABLE and LONG_WORDS.search(self.message)):
            return "long"
        if self.status == 401 or (self.status == 403 and not self.no_model):
            return "key"
        if self.status == 400 and KEY_WORDS.search(self.message):  # Gemini
            return "key"
        if self.status == 429:
            return "limited"
        if self.code in REFUSED:
            return "refused"
        return "overloaded" if self.status >= 500 else "rejected"

    @property
    def no_model(self) -> bool:
        """Whether the model does not exist, or this key may not use it, for which OpenAI answers 403."""
        return self.status == 404 or self.code == "model_not_found"

    @property
    def long_answer(self) -> bool:
        """Whether the request allows a longer answer than the model can give."""
        return self.status in MENDABLE and bool(ANSWER_WORDS.search(self.message))

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        if self.kind in ("spent", "long", "refused"):
            return False
        if self.again is not None:
            return self.again
        return self.status in (0, 200) or self.status in PASSING


class RequestFailed(Exception):
    """Carries a `RequestFailure` from where it is noticed to where it is handled. Never leaves this package."""

    def __init__(self, failure: RequestFailure) -> None:
        self.failure = failure
        super().__init__(failure.code or failure.why)


def failure_of(status: int, body: object, headers: Mapping[str, str], now: datetime) -> RequestFailure:
    """Return the failure in an error reply. `headers` have lower-case names; for a `status` below 400 the error's word counts."""
    error = _error_in(body)
    word, code, param = (_harmless(error.get(name)) for name in ("type", "code", "param"))
    details = error.get("details")
    detailed = _harmless(details.get("error_code")) if isinstance(details, Mapping) else ""
    # The most specific one first: Anthropic's `details` say more than its `type`, as does OpenAI's `code`.
    words = [found for found in (detailed, code, word) if found]
    room, text = error.get("n_ctx"), _text_in(error.get("message")) or _text_in(error.get("detail"))
    if status < 300:
        number = error.get("code")
        by_word = next((STATUS_OF[word] for word in words if word in STATUS_OF), 500)
        status = number if isinstance(number, int) and 400 <= number < 600 else by_word
    wait_s = retry_after_s(headers.get("retry-after"), now)
    milliseconds = headers.get("retry-after-ms", "")
    if re.fullmatch(r"\d{1,9}(\.\d+)?", milliseconds):  # Azure and OpenAI send these beside the seconds
        wait_s = float(milliseconds) / 1_000
    if wait_s is None and (wait := WAIT_WORDS.search(text)):
        wait_s = float(wait[1]) / (1_000 if wait[2].lower() == "ms" else 1)
    if not isinstance(room, int):
        named = ROOM.search(text)
        room = int(named[1].replace(",", "")) if named else None
    return RequestFailure(
        status=status,
        code=next((found for found in words if found in SPENT | LONG | REFUSED), words[0] if words else ""),
        param=param,
        message=text,
        wait_s=wait_s,
        again={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
        room=room,
    )


def _error_in(body: object) -> Mapping[str, Any]:
    """Return the innermost error object, without its wrappers."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping):
        for name in ("error", "detail"):
            inner = body.get(name)
            if isinstance(inner, Mapping):
                return inner
            if isinstance(inner, str):
                return {"message": inner}
        return body
    return {"message": body} if isinstance(body, str) else {}


def _text_in(message: object, depth: int = 3) -> str:
    """Return the sentence in a message, or the sentences in a list of wrong parts, without the values that were sent."""
    if isinstance(message, Mapping) and depth:
        where = message.get("loc")
        place = ".".join(map(str, where)) if isinstance(where, list) and len(where) < MOST_PARTS else ""
        return " ".join([place, *(_text_in(message.get(name), depth - 1) for name in ("msg", "detail"))]).strip()
    if isinstance(message, list) and depth:
        return "; ".join(_text_in(one, depth - 1) for one in message[:MOST_PARTS])
    return message if isinstance(message, str) else ""


def _harmless(word: object) -> str:
    """Return a vendor's word if it is one word, because a sentence may quote the request."""
    return word if isinstance(word, str) and HARMLESS_WORD.fullmatch(word) else ""
