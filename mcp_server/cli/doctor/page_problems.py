"""Check a person's own pages: which are skipped or unusual, which links lead nowhere, why, and how to fix each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import NamedTuple

from knowledge.errors import KnowledgeError, NoSuchPath, VaultUnavailable
from knowledge.pages.document import parse
from knowledge.pages.own_pages import OwnPages
from knowledge.pages.vault import Vault, printable
from mcp_server.cli.doctor.page_repairs import FormerPaths, LostPageNames, broken_links, quoted, relinked

PROGRESS_EVERY = 50
MOST_MEANT = 3
LEADS_NOWHERE = "a link leads nowhere"
_MENDS = (  # by words in the reason; the first that fits counts
    ("conflict that Git left", "keep one side, remove the lines of <<<<<<<, ======= and >>>>>>>, and save"),
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
class PageRepair:
    """A page with its text as it is and as it would be repaired; `changes` are sentences."""

    path: str
    revision: str
    before: str
    text: str
    changes: tuple[str, ...]

    @property
    def lines(self) -> Sequence[str]:
        """The changed lines, as a diff without context."""
        pair = self.before.splitlines(), self.text.splitlines()
        return [line for line in unified_diff(*pair, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]


@dataclass(frozen=True, slots=True)
class CheckedPages:
    """The number of pages, those that can't be read, and the problems found; `more` problems were only counted.

    `links` are the links that lead nowhere, `unsummarised` pages without a summary of their own. `excluded` pages are not
    the person's own and were not checked. `repairs` are the changes with only one reading.
    """

    count: int
    unreadable: frozenset[str]
    problems: tuple[PageProblem, ...]
    more: int
    links: tuple[PageProblem, ...] = ()
    unsummarised: tuple[str, ...] = ()
    excluded: int = 0
    repairs: tuple[PageRepair, ...] = ()


def look_through(
    vault: Vault,
    on_progress: Callable[[int, int], None],
    *,
    excluded: Sequence[str] = (),
    former: FormerPaths | None = None,
) -> CheckedPages:
    """Read and parse every page; call `on_progress(done, total)` now and then. Blocks for about two milliseconds per page.

    `former` is what the history knows of pages that were renamed.

    Raises:
        VaultUnavailable: the folder is gone.
    """
    paths = sorted(found.path for found in vault.scan())
    left_out, uncounted = vault.problems, vault.problem_count - len(vault.problems)
    own = OwnPages.of(vault, paths, excluded)
    problems = [_problem(one.path, one.reason) for one in left_out if one.path in own]
    unreadable, pages = set[str](), dict[str, _Known]()
    for number, path in enumerate(paths):
        if number % PROGRESS_EVERY == 0:
            on_progress(number, 2 * len(paths))
        try:
            known = _known(vault, path)
        except VaultUnavailable:
            raise
        except KnowledgeError as error:
            unreadable.add(path)
            if path in own:
                problems.append(_problem(path, str(error).removeprefix(f"{path} ")))
            continue
        if known is not None:
            pages[path] = known
    checked = {path: known for path, known in pages.items() if path in own}
    names = LostPageNames({path: (known.aliases, known.revision) for path, known in pages.items()}, former)
    links, repairs = _links_and_repairs(
        vault, pages, checked, names, lambda done: on_progress(len(paths) + done, 2 * len(paths))
    )
    on_progress(2 * len(paths), 2 * len(paths))
    return CheckedPages(
        count=len(paths),
        unreadable=frozenset(unreadable),
        problems=(*problems, *(_problem(path, one) for path, known in checked.items() for one in known.problems)),
        more=uncounted,
        links=tuple(links),
        unsummarised=tuple(path for path, known in checked.items() if not known.summarised),
        excluded=sum(path not in own for path in paths),
        repairs=tuple(repairs),
    )


class _Known(NamedTuple):
    """What the first pass keeps of a page: its text would take too much memory."""

    aliases: tuple[str, ...]
    revision: str
    problems: tuple[str, ...]
    summarised: bool


def _known(vault: Vault, path: str) -> _Known | None:
    """Return what is kept of the page; None if it was deleted since the scan."""
    try:
        file = vault.read(path)
    except NoSuchPath:
        return None
    document = parse(path, file.raw)
    summarised = any(document.metadata.get(key) for key in ("summary", "description"))
    return _Known(document.aliases, file.revision, document.problems, summarised)


def _links_and_repairs(
    vault: Vault,
    pages: Container[str],
    checked: Iterable[str],
    names: LostPageNames,
    on_page: Callable[[int], None],
) -> tuple[list[PageProblem], list[PageRepair]]:
    """Return the links of the checked pages that lead nowhere, and the repairs with only one reading."""
    seen = dict[str, bool]()

    def exists(path: str) -> bool:
        if path not in pages and path not in seen:
            seen[path] = _is_there(vault, path)
        return path in pages or seen[path]

    problems, repairs = list[PageProblem](), list[PageRepair]()
    for number, path in enumerate(checked):
        if number % PROGRESS_EVERY == 0:
            on_page(number)
        try:
            file = vault.read(path)
            text = file.raw.decode("utf-8")
        except VaultUnavailable:
            raise
        except (KnowledgeError, UnicodeDecodeError):
            continue  # it has a finding of its own, and no repair has only one reading
        broken = broken_links(path, text, exists, names)
        problems += [PageProblem(path, LEADS_NOWHERE, f"{one.written}: {_meant(one.candidates)}") for one in broken]
        changes = [f"link {one.written} to {one.candidates[0]}" for one in broken if len(one.candidates) == 1]
        linked = relinked(path, text, broken, exists)
        repaired = quoted(linked)
        if repaired != linked:
            changes.append("put quotes around the front matter values that hold a colon")
        if repaired != text:
            repairs.append(PageRepair(path, file.revision, text, repaired, tuple(changes)))
    return problems, repairs


def _is_there(vault: Vault, path: str) -> bool:
    try:
        vault.resolve(path)
    except NoSuchPath:
        return False
    except KnowledgeError:
        return True  # outside or hidden: not ours to judge
    return True


def _meant(candidates: Sequence[str]) -> str:
    if not candidates:
        return "no page has this name"
    return f"it may mean {' or '.join(candidates[:MOST_MEANT])}"


def _problem(path: str, reason: str) -> PageProblem:
    mend = next((mend for sign, mend in _MENDS if sign in reason), "look at it in an editor")
    return PageProblem(printable(path), reason, mend)
