"""Rights in folders at the gate: whose call this is, what it may read, and whether its plan may run. Pure but for the loading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from knowledge.access.rules import UNNAMED, UNRESTRICTED, NoRightThere, PathAccess, Right
from knowledge.errors import KnowledgeError
from mcp_server.gate.host_registration import Principal

LoadAccess: TypeAlias = Callable[[str], Awaitable[PathAccess]]
"""Returns the rights of the principal with that id in the folders."""
AsCaller: TypeAlias = Callable[[Principal], AbstractAsyncContextManager[PathAccess]]
"""While the block runs, every service shows only what the caller may read. Yields the caller's access."""

AsBeginner: TypeAlias = Callable[[str], AbstractAsyncContextManager[PathAccess]]
"""While the block runs, hides also what the principal with that id, who began a journey, may not read. Yields the access."""


@asynccontextmanager
async def as_everybody(_principal: Principal | str) -> AsyncIterator[PathAccess]:
    """Restrict nothing."""
    yield UNRESTRICTED


def without_hidden_sources(value: Any, access: PathAccess) -> Any:
    """Return JSON `value` without the names of hidden pages. A readable page may name one as the source of its text."""
    if isinstance(value, Mapping):
        return {key: without_hidden_sources(inside, access) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [without_hidden_sources(inside, access) for inside in value]
    return UNNAMED if isinstance(value, str) and not access.may_name(value) else value


class NoRightToWrite(KnowledgeError):
    """The caller may read the page, but neither change it nor propose a change."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"you may read {path[:200]!r}, but not change it or propose a change; nothing was written")


def require_right(access: PathAccess, writes: Sequence[str]) -> None:
    """Check that a call about these pages may at least be proposed.

    Raises:
        NoRightThere, NoRightToWrite: the caller may not.
    """
    for path in writes:
        match access.right(path):
            case Right.NONE:
                raise NoRightThere(path)
            case Right.READ:
                raise NoRightToWrite(path)


def reason_to_propose(access: PathAccess, writes: Sequence[str], also: Sequence[str]) -> str:
    """Return why a person has to decide on the call, "" if nobody has to.

    `writes` are the pages that it is about, `also` others that it would change too, such as those with links to a page that moves.
    """
    for path in (*writes, *also):
        if access.right(path) < Right.WRITE:
            what = "propose changes to" if access.right(path) is Right.PROPOSE else "read"
            return f"You may only {what} {path[:200]}, so a person decides"
    return ""
