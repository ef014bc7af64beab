"""Check a person's own pages: which are skipped or unusual, which links lead nowhere, why, and how to fix each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import NamedTuple

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath, VaultUnavailable
from knowledge.pages.document import parse
from knowledge.pages.links import LinkTargets
from knowledge.pages.obsidian.block_ids import named_blocks
from knowledge.pages.obsidian.canvas import is_canvas, read_canvas
from knowledge.pages.own_pages import OwnPages
from knowledge.pages.paths import clean_path, without_suffix
from knowledge.pages.vault import Vault, printable
from knowledge.state.document_names import files_by_name, name_key
from mcp_server.cli.doctor.page_repairs import (
    BrokenLink,
    FormerPaths,
    LostPageNames,
    broken_links,
    is_attachment,
    missing_blocks,
    quoted,
    relinked,
)

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
    titles = [known.title for known in pages.values()]
    names = LostPageNames({path: (known.aliases, known.revision) for path, known in pages.items()}, former, titles)
    vault_settings = vault.obsidian_settings()
    # Only now: a link may lead to any page, also to one that was read last.
    links, repairs = _links_and_repairs(
        vault, pages, checked, names, lambda done: on_progress(len(paths) + done, 2 * len(paths))
    )
    canvases = [path for path in vault.file_paths() if is_canvas(path) and path in own]
    links += [problem for path in canvases for problem in _canvas_problems(vault, path)]
    on_progress(2 * len(paths), 2 * len(paths))
    return CheckedPages(
        count=len(paths),
        unreadable=frozenset(unreadable),
        problems=(*problems, *(_problem(path, one) for path, known in checked.items() for one in known.problems)),
        more=uncounted,
        links=tuple(links),
        unsummarised=tuple(
            path
            for path, known in checked.items()
            if not known.summarised and not vault_settings.is_daily(without_suffix(path))
        ),
        excluded=sum(path not in own for path in paths),
        repairs=tuple(repairs),
    )


class _Known(NamedTuple):
    """The facts that the first pass keeps of a page. Keeping its text, too, would take too much memory."""

    title: str
    aliases: tuple[str, ...]
    revision: str
    problems: tuple[str, ...]
    summarised: bool
    block_ids: frozenset[str]


def _known(vault: Vault, path: str) -> _Known | None:
    """Return what is kept of the page; None if it was deleted since the scan."""
    try:
        file = vault.read(path)
    except NoSuchPath:
        return None
    document = parse(path, file.raw)
    summarised = any(document.metadata.get(key) for key in ("summary", "description"))
    ids = frozenset(block.id for block in named_blocks(document)) if b"^" in file.raw else frozenset[str]()
    return _Known(document.title, document.aliases, file.revision, document.problems, summarised, ids)


def _links_and_repairs(
    vault: Vault,
    pages: Mapping[str, _Known],
    checked: Iterable[str],
    names: LostPageNames,
    on_page: Callable[[int], None],
) -> tuple[list[PageProblem], list[PageRepair]]:
    """Return the links of the checked pages that lead nowhere, and the repairs with only one reading."""
    seen = dict[str, bool]()
    files, vault_settings = files_by_name(vault.file_paths()), vault.obsidian_settings()

    def exists(path: str) -> bool:
        if path not in pages and path not in seen:
            seen[path] = _is_there(vault, path)
        return path in pages or seen[path]

    def block_ids(path: str) -> Collection[str]:
        return pages[path].block_ids if path in pages else ()

    targets = LinkTargets(exists, lambda name: files.get(name_key(name), ()), vault.is_obsidian())
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
            continue  # the page has a finding of its own, and nothing in it can be repaired without a guess
        # Obsidian makes a daily note when its link is followed.
        broken = [
            one
            for one in broken_links(path, text, targets, names)
            if not vault_settings.is_daily(without_suffix(one.missing))
        ]
        problems += [PageProblem(path, LEADS_NOWHERE, f"{one.written}: {_meant(one)}") for one in broken]
        problems += [
            PageProblem(path, LEADS_NOWHERE, f"{written}: the page has no block ^{name}")
            for written, name in missing_blocks(path, text, targets, block_ids)
        ]
        changes = [f"link {one.written} to {one.candidates[0]}" for one in broken if len(one.candidates) == 1]
        linked = relinked(path, text, broken, exists, targets.called)
        repaired = quoted(linked)
        if repaired != linked:
            changes.append("put quotes around the front matter values that hold a colon")
        if repaired != text:
            repairs.append(PageRepair(path, file.revision, text, repaired, tuple(changes)))
    return problems, repairs


def _canvas_problems(vault: Vault, path: str) -> Iterator[PageProblem]:
    """Yield the files that the canvas shows and that are not there."""
    try:
        canvas = read_canvas(vault.read(path, plain=True).raw)
    except VaultUnavailable:
        raise
    except KnowledgeError:
        return
    if canvas is None:
        yield PageProblem(path, "the canvas can't be read: it is not JSON with nodes", "restore it, or remove it")
        return
    for file in canvas.files:
        if not _is_there_or_hidden(vault, file):
            yield PageProblem(path, LEADS_NOWHERE, f"{file}: no file has this path")


def _is_there_or_hidden(vault: Vault, path: str) -> bool:
    try:
        return _is_there(vault, clean_path(path))
    except InvalidPath:
        return True


def _is_there(vault: Vault, path: str) -> bool:
    try:
        vault.resolve(path)
    except NoSuchPath:
        return False
    except KnowledgeError:
        return True  # outside or hidden: not ours to judge
    return True


def _meant(link: BrokenLink) -> str:
    if not link.candidates:
        return f"no {'file' if is_attachment(link.written) else 'page'} has this name"
    return f"it may mean {' or '.join(link.candidates[:MOST_MEANT])}"


def _problem(path: str, reason: str) -> PageProblem:
    mend = next((mend for sign, mend in _MENDS if sign in reason), "look at it in an editor")
    return PageProblem(printable(path), reason, mend)
