"""The errors of asking a language model: one root, facts as attributes, and what to do next in every sentence.

No sentence contains a key, a prompt, or text of a model or a server: those may repeat what they were sent.
"""

from __future__ import annotations

from agents.errors import AgentError
from agents.loop.model.ports import ModelUsage
from knowledge.extras import install_command

LONGEST_NAME = 80


class ProviderError(AgentError):
    """Root of all of them. `provider` is the vendor, `usage` the tokens that were used nevertheless."""

    def __init__(self, provider: str, sentence: str, usage: ModelUsage | None = None) -> None:
        self.provider, self.usage = provider, usage or ModelUsage()
        super().__init__(sentence)


class NoProvider(ProviderError):
    """No model is configured. `setting` is the variable that configures one."""

    def __init__(self, setting: str, why: str = "no language model is configured") -> None:
        self.setting = setting
        super().__init__("", f"{why}; set {setting}. Everything that needs no model works without")


class NotInstalled(ProviderError):
    """The vendor's package is not installed. `extra` installs it."""

    def __init__(self, provider: str, extra: str) -> None:
        self.extra = extra
        super().__init__(provider, f"{provider} needs a package; install it with {install_command(extra)}")


class BadSurroundings(ProviderError):
    """The environment names a proxy or certificates that cannot be used. `why` is the kind of the error."""

    def __init__(self, provider: str, why: str) -> None:
        self.why = why
        super().__init__(
            provider,
            f"{provider} cannot be reached from here ({why}); check HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE in the "
            "environment of the server (a SOCKS proxy needs the package socksio)",
        )


class BadAddress(ProviderError):
    """The value of `setting` is not the address of a server."""

    def __init__(self, provider: str, setting: str) -> None:
        self.setting = setting
        super().__init__(
            provider, f"{setting} is not a valid address for {provider}; it must start with http:// or https://"
        )


class BadKey(ProviderError):
    """The key is missing, rejected, or not allowed to do this (401, 403, 402). `setting` is the variable that holds it."""

    def __init__(self, provider: str, setting: str, why: str) -> None:
        self.setting, self.why = setting, why
        super().__init__(provider, f"{provider} rejected the key ({why}); check {setting}")


class ProviderLimited(ProviderError):
    """Too many requests or tokens. `wait_s` is how long the vendor asks to wait; None if it does not say."""

    def __init__(self, provider: str, wait_s: float | None, tries: int) -> None:
        self.wait_s, self.tries = wait_s, tries
        wait = f"in {wait_s:.0f} s" if wait_s is not None else "later"
        super().__init__(provider, f"{provider} accepts no more requests for now ({_times(tries)}). Try again {wait}")


class SpentUp(ProviderError):
    """The account has no money or quota left: waiting does not help, a person has to act."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider, f"the account at {provider} has no quota left; a person must check its billing")


class Overloaded(ProviderError):
    """The server is up and cannot answer now (5xx, 529). `status` is the last one."""

    def __init__(self, provider: str, status: int, tries: int) -> None:
        self.status, self.tries = status, tries
        super().__init__(provider, f"{provider} cannot answer now (status {status}, {_times(tries)}). Try again later")


class ProviderAway(ProviderError):
    """No connection, or no complete answer over it. `why` is the last reason."""

    def __init__(self, provider: str, address: str, why: str, tries: int, mend: str) -> None:
        self.address, self.why, self.tries = address, why, tries
        super().__init__(provider, f"{provider} at {_short(address)} gave no answer ({why}, {_times(tries)}); {mend}")


class ContextTooLong(ProviderError):
    """The history and the longest answer together exceed the context window. `limit` is its size in tokens, if the server says it."""

    def __init__(self, provider: str, model: str, limit: int | None = None) -> None:
        self.model, self.limit = model, limit
        room = f" of {limit:,} tokens" if limit else ""
        super().__init__(
            provider,
            f"the conversation and the answer together exceed the context window{room} of {_short(model)}; send less, "
            "allow a shorter answer, or use another model",
        )


class Refusal(ProviderError):
    """The model, or a filter in front of it, refuses to answer. `category` is the vendor's word, "" if there is none."""

    def __init__(self, provider: str, model: str, category: str, usage: ModelUsage | None = None) -> None:
        self.model, self.category = model, category
        why = f" ({_short(category)})" if category else ""
        super().__init__(
            provider, f"{_short(model)} refused to answer{why}; rephrase the request or use another model", usage
        )


class Malformed(ProviderError):
    """The answer cannot be used. `why` says what is wrong with it, in our words."""

    def __init__(self, provider: str, why: str, usage: ModelUsage | None = None) -> None:
        self.why = why
        super().__init__(
            provider, f"{provider} gave an answer that cannot be used: {why}. Try again, or use another model", usage
        )


class Rejected(ProviderError):
    """The server does not accept the request: no such model, an unknown schema, a wrong address. Repeating it does not help.

    `code` is the vendor's own word for it, "" if there is none; `mend` is what to do.
    """

    def __init__(self, provider: str, status: int, code: str, mend: str) -> None:
        self.status, self.code, self.mend = status, code, mend
        why = f"{status}: {_short(code)}" if code else f"status {status}"
        super().__init__(provider, f"{provider} rejected the request ({why}); {mend}")


def _times(tries: int) -> str:
    return "tried once" if tries == 1 else f"tried {tries} times"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 3] + "..."
