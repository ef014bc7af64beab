"""Someone swaps files, folders and links of the knowledge base at every single step of a write.

Promises: nothing outside the knowledge base and nothing hidden is ever written, replaced or removed; no text of a page
is lost, it is in a file or in a history; none of our files is left over; and the next write works. Attacks continue for
as many steps as an act has, each with its own folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from knowledge.errors import KnowledgeError
from knowledge.writing.files.exchange import is_temporary
from tests.support.writing.acts import World, appending, setting

PAGE, OTHER, NEW = "notes/a.md", "other/b.md", "notes/new.md"
TEXT, SECOND = b"# A\n\nOne.\nTwo.\n", b"# B\n\nIts own text.\n"
OUTSIDE = {"a.md": b"# A\n\nOne.\nTwo.\n", "b.md": b"out of bounds\n", "new/x.md": b"x\n"}
"""The first has the page's contents: a check of bytes alone takes it for the page."""


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, raw in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)


def ground(tmp_path: Path) -> World:
    world = World(tmp_path)
    put(world.root, {PAGE: TEXT, OTHER: SECOND, ".hidden/a.md": TEXT, ".git/config": b"[core]\n"})
    put(tmp_path / "outside", OUTSIDE)
    return world


# --- swaps ------------------------------------------------------------------------------------------------------------


def page_for_link_out(root: Path) -> None:
    (root / PAGE).unlink(missing_ok=True)
    (root / PAGE).symlink_to(root.parent / "outside/a.md")


def page_for_link_to_hidden(root: Path) -> None:
    (root / PAGE).unlink(missing_ok=True)
    (root / PAGE).symlink_to("../.hidden/a.md")


def page_for_hard_link_out(root: Path) -> None:
    (root / PAGE).unlink(missing_ok=True)
    (root / PAGE).hardlink_to(root.parent / "outside/a.md")


def page_for_folder(root: Path) -> None:
    (root / PAGE).unlink(missing_ok=True)
    (root / PAGE).mkdir(parents=True)


def folder_for_link_out(root: Path) -> None:
    (root / "notes").rename(root / "notes-before")
    (root / "notes").symlink_to(root.parent / "outside")


def folder_for_link_to_hidden(root: Path) -> None:
    (root / "notes").rename(root / "notes-before")
    (root / "notes").symlink_to(".hidden")


def folder_for_other(root: Path) -> None:
    """By a rename, which no check for links notices."""
    (root / "notes").rename(root / "notes-before")
    (root / "other").rename(root / "notes")


def folder_gone(root: Path) -> None:
    shutil.rmtree(root / "notes", ignore_errors=True)


def new_for_link_out(root: Path) -> None:
    if not (root / NEW).exists():
        (root / NEW).symlink_to(root.parent / "outside/made.md")


def staged_for_link_out(root: Path) -> None:
    """The file that we put beside the page becomes a link to someone else's file."""
    for staged in (root / "notes").glob(".forge-*"):
        staged.unlink()
        staged.symlink_to(root.parent / "outside/b.md")


SWAPS: list[Callable[[Path], None]] = [
    page_for_link_out,
    page_for_link_to_hidden,
    page_for_hard_link_out,
    page_for_folder,
    folder_for_link_out,
    folder_for_link_to_hidden,
    folder_for_other,
    folder_gone,
    new_for_link_out,
    staged_for_link_out,
]
ACTS = {
    "change": lambda: appending(PAGE, b"Three."),
    "make": lambda: setting({NEW: b"# New\n"}),
    "move": lambda: setting({PAGE: None, NEW: TEXT}, **{"notes__new.md": PAGE}),
    "delete": lambda: setting({PAGE: None}),
}
USUAL = "move"
"""It resembles the others, which run among the external tests."""


async def number_of_steps(tmp_path: Path, act: str) -> int:
    world = ground(tmp_path)
    await world.acts.run(ACTS[act]())
    return len(world.steps.seen)


def at_step(at: int, swap: Callable[[Path], None], root: Path) -> Callable[[str], None]:
    """Return a callback that swaps once, at the step of that number."""
    seen = count()

    def told(_step: str) -> None:
        if next(seen) == at:
            with suppress(OSError):  # at this step the files to be swapped may not exist
                swap(root)

    return told


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
@pytest.mark.parametrize("act", [pytest.param(act, marks=() if act == USUAL else pytest.mark.external) for act in ACTS])
async def test_no_swap_at_any_step_leads_out_or_loses_anything(
    tmp_path: Path, act: str, swap: Callable[[Path], None]
) -> None:
    (tmp_path / "quiet").mkdir()
    for at in range(await number_of_steps(tmp_path / "quiet", act)):
        (home := tmp_path / str(at)).mkdir()
        world = ground(home)
        outside, hidden, git = (files_in(f) for f in (home / "outside", world.root / ".hidden", world.root / ".git"))
        world.files._step = at_step(at, swap, world.root)
        with suppress(KnowledgeError):
            await world.acts.run(ACTS[act]())
        where = f"{act}, {swap.__name__} at step {at}"
        world.files._step = world.steps
        assert files_in(home / "outside") == outside, where
        assert files_in(world.root / ".hidden") == hidden, where
        assert files_in(world.root / ".git") == git, where
        kept = [raw for path in (PAGE, NEW, OTHER, "notes/b.md") for raw in await world.lineage(path)]
        everywhere = b"\n".join([*files_in(world.root).values(), *kept])
        if swap is not folder_gone and not swap.__name__.startswith("page_for"):
            for text in (b"One.\nTwo.", b"Its own text."):
                assert text in everywhere, where
        for link in [f for f in world.root.rglob("*") if f.is_symlink()]:
            link.unlink()
        await world.acts.run(appending(OTHER if (world.root / OTHER).exists() else "fresh.md", b"Next."))
        await world.acts.recovery.finish_all()
        await world.acts.recovery.sweep(older_than_s=-5.0)
        left = [name for name in files_in(world.root) if is_temporary(Path(name).name)]
        assert left == [], where
