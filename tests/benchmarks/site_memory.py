"""The memory of a real `review --web` process after a login, pages, Home and searches: resident, its own, and of its workers.

python -m tests.benchmarks.site_memory DIR

`DIR` has the knowledge base and the state that `tests.benchmarks.site_speed DIR` left there.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from mcp_server.web.text.site_addresses import find_address, page_address
from tests.benchmarks.corpus import load
from tests.benchmarks.site_graph import site
from tests.support.web.review_pages import forms

READ, ASKED = 150, 40
REST_S = 4.0
"""The pause after a login, in which the site loads its search, and after the last request."""


def kilobytes(pid: int) -> dict[str, int]:
    """Return the sums of the kernel's account of a process by their names, in kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def workers(pid: int) -> Iterator[int]:
    """Yield the living children of a process."""
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        yield from map(int, listed.read_text(encoding="ascii").split())


def printed(what: str, pid: int) -> None:
    """Print one row."""
    now = kilobytes(pid)
    own = now["Private_Clean"] + now["Private_Dirty"]
    others = [kilobytes(worker)["Rss"] // 1024 for worker in workers(pid)]
    print(f"| {what} | {now['Rss'] // 1024} | {own // 1024} | {', '.join(map(str, others))} |", flush=True)


def measure(folder: Path) -> None:
    """Print the table."""
    print("| after | resident, MB | its own, MB | workers, MB |\n|---|---|---|---|")
    questions = [query.text for query in load(folder / "kb").queries][:ASKED]
    paths = sorted(str(file.relative_to(folder / "kb")) for file in (folder / "kb").rglob("*.md"))
    with site(folder / "kb", folder / "state") as (pid, link):
        where = link.partition("/login")[0]
        with httpx.Client(base_url=where, follow_redirects=True, timeout=60) as http:
            printed("the start", pid)
            secret = forms(http.get(link).text)["/login"]["secret"]
            http.post("/login", data={"secret": secret}, headers={"origin": where})
            time.sleep(REST_S)
            printed("the login", pid)
            for path in random.Random(2).sample(paths, READ):
                http.get(page_address(path))
            printed(f"{READ} pages", pid)
            for address in ("/", "/health?show=orphans", "/", "/pages", "/recent", "/tags", "/history", "/graph"):
                http.get(address)
            printed("Home and the lists", pid)
            for question in questions:
                for end in range(2, len(question) + 1, 2):
                    http.get(find_address(question[:end]), params={"part": "results", "q": question[:end]})
                http.get(find_address(question))
            printed(f"{ASKED} questions, typed", pid)
            time.sleep(REST_S)
            printed("a rest", pid)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    measure(parser.parse_args().folder)


if __name__ == "__main__":
    main()
