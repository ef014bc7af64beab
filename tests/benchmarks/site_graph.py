"""The graph of links in Chromium: from the click to the first frame, frames while it is moved, pages around one page, memory.

python -m tests.benchmarks.site_graph --pages 10000 --links 50000
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
from playwright.sync_api import Page, sync_playwright

from tests.benchmarks.processes import ROOT, memory_mb

FOLDER, AREA = 100, 1_000
"""Pages of a folder, and of a folder of folders."""
UP_TO_DATE = """() => {
  const pending = document.querySelector('[data-pending]');
  return !pending || pending.textContent.startsWith('The picture is up to date');
}"""
FRAMES = """async (kind) => {
  const canvas = document.querySelector('.graph-marks'), box = canvas.getBoundingClientRect(), times = [];
  const send = (name, x, y) => canvas.dispatchEvent(new PointerEvent(name,
    { pointerId: 1, pointerType: 'mouse', clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  canvas.setPointerCapture = () => {};  // there is no real pointer to capture
  if (kind === 'move') send('pointerdown', 300, 300);
  let last = performance.now();
  for (let n = 0; n < 120; n += 1) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
    if (kind === 'zoom') canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: n % 40 < 20 ? -60 : 60,
      clientX: box.left + 400, clientY: box.top + 250, cancelable: true, bubbles: true }));
    else send('pointermove', 300 + n * 5, 200 + n * 3);
  }
  if (kind === 'move') send('pointerup', 1, 1);
  return times.slice(3);
}"""


def links(pages: int, count: int) -> list[tuple[int, int]]:
    """Return links as people make them: mostly inside of a folder and to its first pages, some near, few anywhere."""
    random, found = Random(1), set[tuple[int, int]]()
    while len(found) < count:
        page = random.randrange(pages)
        draw, folder = random.random(), page // FOLDER * FOLDER
        if draw < 0.8:
            other = folder + int(FOLDER * random.random() ** 2)
        elif draw < 0.9:
            other = page // AREA * AREA + random.randrange(AREA // FOLDER) * FOLDER + int(FOLDER * random.random() ** 3)
        else:
            other = int(pages * random.random() ** (4 if draw < 0.97 else 1))
        if page != other < pages:
            found.add((page, other))
    return sorted(found)


def path_of(page: int) -> str:
    """Return where the page is."""
    return f"area-{page // AREA}/topic-{page // FOLDER:04}/page-{page:06}.md"


def write(folder: Path, pages: int, count: int) -> None:
    """Write the pages, half of their links as wiki links."""
    out: list[list[int]] = [[] for _ in range(pages)]
    for page, other in links(pages, count):
        out[page].append(other)
    for page, others in enumerate(out):
        file = folder / path_of(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        shown = " ".join(f"[[page-{o:06}]]" if (page + o) % 2 else f"[there](/{path_of(o)})" for o in others)
        file.write_text(f"# Page {page} of topic {page // FOLDER}\n\nIt says something. {shown}\n", encoding="utf-8")


@contextmanager
def site(kb: Path, state: Path) -> Iterator[tuple[int, str]]:
    """Serve the site; yield its process and a link that logs in."""
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_server", "review", "--web", "--kb", str(kb), "--state-dir", str(state)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            assert process.stdout is not None
            link = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+/login/\S+", line)))
            yield process.pid, link
        finally:
            process.terminate()


def drawn(page: Page, address: str) -> tuple[float, float]:
    """Open the graph; return the milliseconds until its first frame, and until all links are drawn."""
    began = time.perf_counter()
    page.goto(f"{address}/graph")
    page.wait_for_selector("[data-drawn]", timeout=120_000)
    first = time.perf_counter()
    page.wait_for_selector('[data-drawn="all"]', timeout=120_000)
    return (first - began) * 1000, (time.perf_counter() - began) * 1000


def around(page: Page, address: str, pages: int) -> Iterator[tuple[str, float]]:
    """Yield the median milliseconds of an answer: the pages around the most linked page and an ordinary one."""
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    with httpx.Client(base_url=address, cookies=cookies) as http:
        for name, steps in ((0, 1), (0, 2), (pages // 2 + 123, 1), (pages // 2 + 123, 2)):
            times = []
            for _ in range(9):
                began = time.perf_counter()
                http.get("/graph", params={"path": path_of(name), "steps": steps}).raise_for_status()
                times.append((time.perf_counter() - began) * 1000)
            yield f"answer, {'most linked' if name == 0 else 'ordinary'} page, {steps} steps", statistics.median(times)


def measure(kb: Path, state: Path, pages: int) -> Iterator[tuple[str, Any]]:
    """Yield what was measured."""
    subprocess.run(
        [sys.executable, "-m", "mcp_server", "index", "--kb", str(kb), "--state-dir", str(state)], check=True
    )
    with site(kb, state) as (pid, link), sync_playwright() as playwright:
        address = link.partition("/login")[0]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(link)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_load_state()
        began = time.perf_counter()
        yield "laid out for the first time, ms to the first frame", drawn(page, address)[0]
        page.wait_for_function(UP_TO_DATE, timeout=120_000)
        yield "laid out for the first time, ms until the layout is shown", (time.perf_counter() - began) * 1000
        opened = [drawn(page, address) for _ in range(5)]
        yield "opened again, ms to the first frame", statistics.median(first for first, _ in opened)
        yield "opened again, ms until all links are drawn", statistics.median(whole for _, whole in opened)
        for kind in ("move", "zoom", "hover"):
            times = sorted(page.evaluate(FRAMES, kind))
            yield f"{kind}, ms for a frame, median", statistics.median(times)
            yield f"{kind}, ms for a frame, 95 of 100", times[int(len(times) * 0.95)]
        yield from around(page, address, pages)
        yield "memory of the site's process, MB, peak", memory_mb(pid, "VmHWM")
        browser.close()


def main() -> None:
    """Print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pages", type=int, default=10_000)
    arguments.add_argument("--links", type=int, default=50_000)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as room:
        kb, state = Path(room, "kb"), Path(room, "state")
        write(kb, asked.pages, asked.links)
        for name, number in measure(kb, state, asked.pages):
            print(f"| {name} | {number:.1f} |", flush=True)


if __name__ == "__main__":
    main()
