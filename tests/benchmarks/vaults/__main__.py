"""`python -m tests.benchmarks.vaults links|moves|doctor|day VAULT...`: vaults of Obsidian, and an independent reading.

A vault is a folder; it is only read. `moves` and `day` work on a copy.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio

from knowledge.merge.document.links import resolve
from knowledge.pages.document import parse
from knowledge.pages.links import LinkTargets
from knowledge.pages.vault import Vault
from knowledge.state.document_names import files_by_name, name_key
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.page_problems import look_through
from mcp_server.cli.doctor.page_repairs import links_to_check
from tests.benchmarks.vaults import oracle
from tests.benchmarks.vaults.day import day_of
from tests.support.hosts.writers import Refused, Writer, writing

MOST_SHOWN = 20
SEED = 3


def compare_links(root: Path, *, shown: int) -> None:
    """Print the links that lead elsewhere than in the oracle's reading, and the pages whose tags differ."""
    theirs, vault = oracle.Vault(root), Vault.open(root)
    pages = {file.path: parse(file.path, vault.read(file.path).raw) for file in vault.scan()}
    files, named = files_by_name(theirs.files), dict[str, list[str]]()
    for path, page in pages.items():
        for name in (page.title, *page.aliases):
            named.setdefault(name_key(name), []).append(path)
    there = {*theirs.files, *(str(Path(file).parent) for file in theirs.files)}
    names = LinkTargets(
        there.__contains__,
        lambda name: [*files.get(name_key(name), ()), *named.get(name_key(name), ())],
        vault.is_obsidian(),
    )
    found: Counter[str] = Counter()
    for path, page in pages.items():
        text = theirs.text(path)
        if text is None:
            continue
        ours = Counter(resolve(path, link, names) for link in links_to_check(text) if link.path.strip())
        wanted = Counter(theirs.target(link, path) for link in oracle.links(text) if link.path)
        found["links"] += wanted.total()
        found["missed by us"] += (missed := wanted - ours).total() - missed[None]
        found["found by us alone"] += (more := ours - wanted).total() - more[None]
        found["pages"] += 1
        found["pages with other tags"] += {tag.lower() for tag in page.tags} != oracle.tags(text)
        for word, targets in (("missed", missed), ("alone", more)):
            for target in targets:
                if target is not None and found[word] < shown:
                    found[word] += 1
                    print(f"  {word}: {path} -> {target}")
    print(
        f"{root.name}: "
        + ", ".join(f"{count} {what}" for what, count in found.items() if what not in ("missed", "alone"))
    )


async def move_pages(root: Path, count: int) -> None:
    """Move pages of a copy, half of them much-linked ones, and print which links led elsewhere afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        kb = Path(folder) / "kb"
        shutil.copytree(root, kb)
        before = oracle.Vault(kb).targets()
        async with writing(Settings(kb=kb, state_dir=Path(folder) / "state")) as host:
            await _indexed(host)
            moved, refused, times = await _moves(host, before, count)
        after = oracle.Vault(kb).targets()
    lost = touched = 0
    for page, targets in before.items():
        wanted = [moved.get(target, target) if target else None for target in targets]
        now = after.get(moved.get(page, page), [])
        touched += sum(1 for target in targets if target and (page in moved or target in moved))
        gone = [one for one, other in zip(wanted, now, strict=False) if one and one != other]
        lost += len(gone) + abs(len(wanted) - len(now))
        for target in gone[:MOST_SHOWN]:
            print(f"  lost: {page} -> {target}")
    print(
        f"{root.name}: {len(moved)} moved, {refused} refused, {touched} links in or to these pages, {lost} lost; "
        f"a move took {statistics.median(times):.2f} s (median), {max(times):.2f} s (longest)"
    )


async def _indexed(host: Writer) -> None:
    while True:
        progress = (await host.call("kb_search", query="note"))["indexed"]
        if progress["done"] == progress["total"] > 0:
            return
        await anyio.sleep(0.5)


async def _moves(
    host: Writer, before: dict[str, list[str | None]], count: int
) -> tuple[dict[str, str], int, list[float]]:
    draw = random.Random(SEED)
    pages = [page for page in before if page.endswith(".md")]
    folders = sorted({page.rpartition("/")[0] for page in pages})
    linked = Counter(target for targets in before.values() for target in targets if target)
    drawn = sorted(draw.sample(pages, min(len(pages), 4 * count)), key=lambda page: -linked[page])
    moved, refused, times = dict[str, str](), 0, list[float]()
    for number, page in enumerate([*drawn[: count // 2], *draw.sample(drawn[count // 2 :], count - count // 2)]):
        stem = page.rpartition("/")[2].removesuffix(".md")
        name = (stem, f"{stem} moved {number}", f"M{number} ünïcode & co")[number % 3]
        to = f"{draw.choice(folders)}/{name}.md".lstrip("/")
        begun = time.perf_counter()
        try:
            answer = await host.call("kb_move", path=page, to=to)
        except Refused:  # another page is there
            refused += 1
            continue
        times.append(time.perf_counter() - begun)
        if answer["status"] == "done":
            moved[page] = to
    return moved, refused, times


def examine(root: Path, *, shown: int) -> None:
    """Print a sample of what `doctor` reports."""
    begun = time.perf_counter()
    found = look_through(Vault.open(root), lambda _done, _total: None)
    took_s = time.perf_counter() - begun
    sample = random.Random(SEED).sample(found.links, min(shown, len(found.links)))
    for one in sample:
        print(f"  {one.path}: {one.mend}")
    print(
        f"{root.name}: {found.count} pages, {found.excluded} excluded, {len(found.links)} links lead nowhere, "
        f"{len(found.problems)} other problems, {took_s:.1f} s"
    )


def main() -> None:
    """Run one of the measurements for each vault."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.vaults")
    parser.add_argument("what", choices=["links", "moves", "doctor", "day"])
    parser.add_argument("vaults", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=50, help="pages to move")
    parser.add_argument("--seed", type=int, default=SEED, help="which day")
    parser.add_argument("--show", type=int, default=MOST_SHOWN, help="disagreements or findings to print")
    asked = parser.parse_args()
    for vault in asked.vaults:
        if asked.what == "links":
            compare_links(vault, shown=asked.show)
        elif asked.what == "doctor":
            examine(vault, shown=asked.show)
        elif asked.what == "day":
            with tempfile.TemporaryDirectory() as folder:
                print(f"{vault.name}: {anyio.run(day_of, vault, Path(folder), asked.seed)}")
        else:
            anyio.run(move_pages, vault, asked.count)


if __name__ == "__main__":
    main()
