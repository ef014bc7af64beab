"""How quickly Home, pages and Find answer over HTTP in a large knowledge base, as a person's browser asks them.

python -m tests.benchmarks.site_speed DIR --pages 10000

`DIR` gets the knowledge base of `tests.benchmarks.corpus` and its state, unless they are there already.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlencode

import anyio
import httpx

from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.web.access.login_links import login_link
from mcp_server.web.access.sessions import Sessions
from mcp_server.web.address import address
from mcp_server.web.server import show
from mcp_server.web.text.site_addresses import edit_address, folder_address, graph_address, page_address
from tests.benchmarks.corpus import load, write
from tests.support.web.plain_http import TRUSTING_NOBODY
from tests.support.web.review_pages import forms

CHUNKS_A_PAGE = 8.46
QUESTIONS = 40
READ = 200
"""Pages that are opened, each for the first time."""
PAUSE_S = 0.08
"""Between two letters, as `find.js` waits; the next one is sent when the last one is answered."""
LONG_S = 3600.0


async def measure(folder: Path, pages: int) -> None:
    """Print the times."""
    if not (folder / "kb").exists():
        write(folder / "kb", round(pages * CHUNKS_A_PAGE))
    questions = [query.text for query in load(folder / "kb").queries][:: max(1, 240 // QUESTIONS)]
    settings = Settings(kb=folder / "kb", state_dir=folder / "state", open_browser=False)
    async with open_app(settings, indexing=False, lean=True) as app, anyio.create_task_group() as tasks:
        print((await app.services.freshen_index(LONG_S)).pages, "pages")
        known = anyio.Event()
        tasks.start_soon(show, app.site_services, app.approvals, settings, known)
        await known.wait()
        where = str(await address(app.base.state))
        link = await login_link(Sessions(app.base.state.trust, utc_now), where)
        async with httpx.AsyncClient(base_url=where, timeout=60, verify=TRUSTING_NOBODY) as http:
            secret = forms((await http.get(link)).text)["/login"]["secret"]
            await http.post("/login", data={"secret": secret}, headers={"origin": where})
            ask = partial(_asked, http)
            print("Home, first view:", f"{await ask('/'):.0f} ms")
            print("Home, counted:", f"{await ask('/health?show=orphans'):.0f} ms")
            await _printed("Home", [partial(ask, "/")] * 20)
            paths = random.Random(2).sample(await app.services.index.paths(limit=2 * pages), READ)
            await _printed("a page, first view", [partial(ask, page_address(path)) for path in paths])
            await _printed("its form to edit", [partial(ask, edit_address(path)) for path in paths[:QUESTIONS]])
            await _printed("its links as a graph", [partial(ask, graph_address(path)) for path in paths[:QUESTIONS]])
            lists = ["/pages", folder_address(paths[0].rpartition("/")[0]), "/recent", "/tags", "/history"]
            await _printed(
                "lists: pages, a folder, changed last, tags, history", [partial(ask, one) for one in lists] * 3
            )
            print("memory before the first search:", _memory(), "MB, with this client")
            await _printed("Find, whole page with reasons", [partial(ask, _address(q)) for q in questions])
            await _printed("Find, results alone", [partial(ask, _address(q, part="results")) for q in questions])
            letters = [q[:n] for q in questions[: QUESTIONS // 2] for n in range(2, len(q) + 1, 2)]
            await _printed(
                "Find, as somebody types", [partial(ask, _address(q, part="results")) for q in letters], PAUSE_S
            )
        print("memory, at most:", _memory(), "MB, with this client")
        tasks.cancel_scope.cancel()


def _memory() -> int:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _address(question: str, **more: str) -> str:
    return f"/find?{urlencode({'q': question, **more})}"


async def _asked(http: httpx.AsyncClient, path: str) -> float:
    """Return how many milliseconds the answer took."""
    began = time.perf_counter()
    answer = await http.get(path)
    took = 1000 * (time.perf_counter() - began)
    if answer.status_code != httpx.codes.OK:
        sys.exit(f"{path}: {answer.status_code}")
    return took


async def _printed(what: str, asks: Sequence[Callable[[], Awaitable[float]]], pause_s: float = 0.0) -> None:
    times = []
    for ask in asks:
        times.append(await ask())
        await anyio.sleep(pause_s)
    highest = quantiles(times, n=20)[-1]
    print(f"{what}: median {median(times):.0f} ms, 95 % below {highest:.0f} ms, {len(times)} requests")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=10_000)
    asked = parser.parse_args()
    anyio.run(measure, asked.folder, asked.pages)


if __name__ == "__main__":
    main()
