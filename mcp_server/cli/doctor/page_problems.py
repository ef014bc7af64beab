"""Check the pages themselves: which are skipped or unusual, why, and how to fix each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knowledge.errors import KnowledgeError, NoSuchPath, VaultUnavailable
from knowledge.pages.document import parse
from knowledge.pages.vault import Vault, printable

PROGRESS_EVERY = 50
_MENDS = (  # by words in the reason; the first that fits counts
    ("never closed", "close it with a line of --- below its last key"),
    ("is TOML", "write it as YAML between lines of ---"),
    ("broken YAML", "correct that line; quote a value that holds a colon"),
    ("front matter", "keep it to `key: value` lines of YAML between lines of ---"),
    ("not valid", "save the file as UTF-8"),
    ("UTF-16", "save the file as UTF-8"),
    ("NUL bytes", "save it as text, or rename it if it is not text"),
    ("too large", "split it"),
    ("name cannot be used", "rename it"),
    ("link", "copy the file inside, or remove the link"),
    ("cannot be listed", "change its permissions"),
    ("cannot be read", "change its permissions"),
)


@dataclass(frozen=True, slots=True)
class PageProblem:
    """A page or folder that is skipped or unusual."""

    path: str
    reason: str
    mend: str


@dataclass(frozen=True, slots=True)
class CheckedPages:
    """The number of pages, those that can't be read, and the problems found; `more` problems were only counted."""

    count: int
    unreadable: frozenset[str]
    problems: tuple[PageProblem, ...]
    more: int


def look_through(vault: Vault, on_progress: Callable[[int, int], None]) -> CheckedPages:
    """Read and parse every page; call `on_progress(done, total)` now and then. Blocks for about a millisecond per page.

    Raises:
        VaultUnavailable: the folder is gone.
    """
    paths = sorted(found.path for found in vault.scan())
    problems = [_problem(left_out.path, left_out.reason) for left_out in vault.problems]
    more = vault.problem_count - len(problems)
    unreadable = set()
    for number, path in enumerate(paths):
        if number % PROGRESS_EVERY == 0:
            on_progress(number, len(paths))
        try:
            found = _odd(vault, path)
        except VaultUnavailable:
            raise
        except KnowledgeError as error:
            unreadable.add(path)
            found = [str(error).removeprefix(f"{path} ")]
        problems.extend(_problem(path, reason) for reason in found)
    on_progress(len(paths), len(paths))
    return CheckedPages(len(paths), frozenset(unreadable), tuple(problems), more)


def _odd(vault: Vault, path: str) -> Sequence[str]:
    try:
        return parse(path, vault.read(path).raw).problems
    except NoSuchPath:
        return ()  # deleted since the scan


def _problem(path: str, reason: str) -> PageProblem:
    mend = next((mend for sign, mend in _MENDS if sign in reason), "look at it in an editor")
    return PageProblem(printable(path), reason, mend)
