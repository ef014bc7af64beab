"""Descriptions as Plane's editor and its API store them: the double stores them as a real Plane does, and an edit leaves them whole.

A real one is named as for tests/contract/connectors/plane/test_client.py. FORGE_TEST_PLANE_SEEDS is the name or key of the project
that Plane makes in a new workspace: a line is added to its tasks' descriptions, and removed again.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from mcp_server.connectors.plane.text.edit import lost
from tests.contract.toolsets.plane.test_write_tools_anywhere import AtPlane, host_of
from tests.doubles.plane_html import cleaned
from tests.unit.connectors.plane.test_edit import ALL, NODES, P

LINE = "One line was added."
ADDED = f"<p>{LINE}</p>"
SIZES = [
    pytest.param("double", 12, id="double"),
    pytest.param("double", 200, id="double-many", marks=pytest.mark.slow),
    pytest.param("real", 200, id="real", marks=pytest.mark.external),
]


@pytest.mark.external
async def test_a_description_is_stored_as_the_double_stores_it(tmp_path: Path) -> None:
    """The double is our word for what a real Plane keeps of each form."""
    loose = [
        "text & more ",
        "<b>b</b><i>i</i>",
        "a<br>b",
        "\n<p>x</p>\n",
        "<hr>",
        "<!-- c --><p>x</p>",
        "<p>x</p><!-- c -->",
    ]
    foreign = [
        "<p onclick='x' data-x='1'>y</p>",
        "<iframe src='https://example.com'></iframe><p>y</p>",
        "<script>1</script><p>y</p>",
    ]
    links = [
        P.format(f'<a href="{url}">l</a>')
        for url in ("https://a.example?b=1&c=2", "javascript:x", "ftp://a", "mailto:a@b.c")
    ]
    async with host_of("real", tmp_path) as host:
        for html in (*NODES, ALL, f"<div>{ALL}</div>", *loose, *foreign, *links):
            made = await host.here.made("As stored", html=html)
            assert (await host.here.plane.task(host.here.project.id, made.id)).html == cleaned(html), html


@pytest.mark.parametrize(("kind", "count"), SIZES)
async def test_a_line_added_to_a_description_leaves_every_other_byte_or_its_loss_is_told(
    kind: str, count: int, tmp_path: Path
) -> None:
    """Read, one line added, written: through the tools, with every form that Plane's editor has."""
    async with host_of(kind, tmp_path) as host:
        for number in range(count):
            draw = random.Random(number)  # noqa: S311 - no secret
            html = "".join(draw.choices(NODES, k=draw.randint(1, 12)))
            made = await host.here.made(f"Described {number}", html=html)
            await add_and_remove_a_line(host, host.here.key_of(made))


@pytest.mark.external
async def test_a_line_added_to_planes_own_tasks_leaves_every_other_byte_or_its_loss_is_told(tmp_path: Path) -> None:
    """The tasks that Plane makes in a new workspace show what its editor can do."""
    if not (wanted := os.environ.get("FORGE_TEST_PLANE_SEEDS")):
        pytest.skip("no project of Plane's own tasks: set FORGE_TEST_PLANE_SEEDS")
    async with host_of("real", tmp_path) as host:
        (seeds,) = [one for one in (await host.here.plane.projects()).items if wanted in (one.name, one.key)]
        tasks = (await host.here.plane.tasks(seeds.id)).items
        assert len(tasks) >= 6
        for task in tasks:
            await add_and_remove_a_line(host, f"{seeds.key}-{task.number}")


async def add_and_remove_a_line(host: AtPlane, key: str) -> None:
    """Add a line at the end of a description and remove it again, and compare all the rest each time."""
    before = await stored(host, key)
    # Plane stores some forms differently when its API writes them: a box without its value, a link's `rel`.
    kept = cleaned(before) or ""
    read = (await host.call("plane_get_task", task=key))["text"]
    for text in (f"{read}\n\n{LINE}".strip(), read):
        seen_at = (await host.call("plane_get_task", task=key))["updated_at"]
        asked: dict[str, object] = {"task": key, "description": text, "seen_at": seen_at}
        plan = await host.call("plane_update_task", **asked, dry_run=True)
        answer = await host.call("plane_update_task", **asked)
        after = await stored(host, key)
        # Plane puts several blocks into one `div`.
        assert after.replace(ADDED, "", 1) in (kept, f"<div>{kept}</div>"), key
        assert (ADDED in after) == text.endswith(LINE)
        told = [f"description: {words}"] if (words := lost(before, after)) else []
        assert answer["differs"] == told, key
        assert all(words in plan["note"] for words in told)
        before = after


async def stored(host: AtPlane, key: str) -> str:
    """Return a description as Plane has it."""
    return (await host.here.plane.task_by_key(key)).html or ""
