"""A paged list is read to its end, whatever its pages do: 1,200 tasks, each once, and possible gaps are reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server.connectors.plane.model import Label, ListPage
from mcp_server.connectors.plane.pagination import MOST_PAGES, Listing, read_all

ALL = [Label(f"id-{number}", f"name {number}") for number in range(1200)]
SIZE = 100


@dataclass
class Pages:
    """Plane's paging: by offset, with the end marked twice. `odd` gives the fault of a page, by its number."""

    things: list[Label] = field(default_factory=lambda: list(ALL))
    odd: Callable[[int, ListPage[Label]], ListPage[Label]] = lambda _number, page: page
    asked: list[str | None] = field(default_factory=list)

    async def page(self, cursor: str | None) -> ListPage[Label]:
        """Return the page that the cursor names."""
        self.asked.append(cursor)
        number = int(cursor.split(":")[1]) if cursor else 0
        after = (number + 1) * SIZE
        onwards = f"{SIZE}:{number + 1}:0" if after < len(self.things) else None
        return self.odd(number, ListPage(self.things[number * SIZE : after], onwards, len(self.things)))


def at(number: int, page: ListPage[Label]) -> Callable[[int, ListPage[Label]], ListPage[Label]]:
    """Return a fault that replaces a page by another."""
    return lambda asked, real: page if asked == number else real


async def test_a_list_is_read_whole_in_the_order_of_its_pages() -> None:
    """Source: work_items_list_page1, work_items_list_page2."""
    pages = Pages()
    assert await read_all(pages.page) == Listing(tuple(ALL))
    assert len(pages.asked) == 12


@pytest.mark.parametrize("things", [0, 1, SIZE - 1, SIZE, SIZE + 1])
async def test_a_list_of_any_length_is_read_whole(things: int) -> None:
    """Source: projects_list_empty; the end may be that of a page."""
    assert await read_all(Pages(ALL[:things]).page) == Listing(tuple(ALL[:things]))


@pytest.mark.parametrize(
    ("odd", "read", "why"),
    [
        pytest.param(at(4, ListPage(ALL[400:500], "100:4:0", 1200)), 500, "led in a circle", id="does not advance"),
        pytest.param(at(4, ListPage(ALL[400:500], "100:2:0", 1200)), 500, "led in a circle", id="goes back"),
        pytest.param(at(4, ListPage(ALL[400:500], "100:0:0", 1200)), 500, "nothing new", id="begins again"),
        pytest.param(at(4, ListPage(ALL[300:400], "100:5:0", 1200)), 400, "nothing new", id="repeats a page"),
        pytest.param(at(4, ListPage((), "100:5:0", 1200)), 400, "nothing new", id="has an empty page"),
        pytest.param(at(4, ListPage(ALL[400:500], None, 1200)), 500, "ended early", id="ends early"),
        pytest.param(at(0, ListPage((), None, 1200)), 0, "ended early", id="is empty at once"),
    ],
)
async def test_pages_that_lead_nowhere_end_and_it_is_said(
    odd: Callable[[int, ListPage[Label]], ListPage[Label]], read: int, why: str
) -> None:
    """1,200 tasks with a cursor that loops, repeats or ends early: it terminates, says so, and has no duplicates."""
    pages = Pages(odd=odd)
    walked = await read_all(pages.page)
    assert walked.items == tuple(ALL[:read])
    assert walked.note is not None
    assert why in walked.note
    assert f"{read} of 1200" in walked.note
    assert len(pages.asked) <= 12


async def test_two_cursors_that_lead_to_each_other_end() -> None:
    """A-B-A, with something new on each page, so that only the cursors show it."""
    told = {None: "a", "a": "b", "b": "a"}
    asked: list[str | None] = []

    async def page(cursor: str | None) -> ListPage[Label]:
        asked.append(cursor)
        return ListPage([ALL[len(asked)]], told[cursor], None)

    walked = await read_all(page)
    assert (asked, walked.items) == ([None, "a", "b"], tuple(ALL[1:4]))
    assert walked.note == "the pages led in a circle: 3 came from Plane"


async def test_a_circle_after_everything_came_leaves_nothing_to_say() -> None:
    """A complete list is complete, whatever the pages do afterwards."""
    pages = Pages(odd=at(11, ListPage(ALL[1100:], "100:0:0", 1200)))
    assert await read_all(pages.page) == Listing(tuple(ALL))


async def test_a_list_that_grows_while_it_is_read_has_nothing_twice() -> None:
    """Pages are counted from the start, so a new item moves the last one of each page to the next page."""
    pages = Pages()

    async def page(cursor: str | None) -> ListPage[Label]:
        got = await pages.page(cursor)
        if cursor is None:
            pages.things.insert(0, Label("new", "new"))
        return got

    walked = await read_all(page)
    assert walked.items == tuple(ALL)
    assert walked.note == "the pages ended early: 1200 of 1201 came from Plane"


async def test_pages_without_end_end() -> None:
    """Each page has something new and a next page, forever."""
    asked: list[str | None] = []

    async def page(cursor: str | None) -> ListPage[Label]:
        asked.append(cursor)
        return ListPage([Label(f"id-{len(asked)}", "")], f"1:{len(asked)}:0", None)

    walked = await read_all(page)
    assert len(asked) == len(walked.items) == MOST_PAGES
    assert walked.note == f"only the first {MOST_PAGES} pages were read: {MOST_PAGES} came from Plane"


async def test_not_more_is_read_than_was_asked_for() -> None:
    """The note gives the total number."""
    pages = Pages()
    walked = await read_all(pages.page, most=250)
    assert walked.items == tuple(ALL[:250])
    assert walked.note == "only the first 250 were read: 250 of 1200 came from Plane"
    assert len(pages.asked) == 3
    assert await read_all(Pages(ALL[:250]).page, most=250) == Listing(tuple(ALL[:250]))


async def test_reading_stops_at_the_page_with_the_result() -> None:
    """A comment is found by its key, newest first, without reading the old ones."""
    pages = Pages()
    walked = await read_all(pages.page, until=lambda label: label.id == "id-150")
    assert walked == Listing(tuple(ALL[:200]))
    assert len(pages.asked) == 2


CURSORS = st.one_of(st.none(), st.sampled_from([f"{SIZE}:{number}:0" for number in range(6)]))
STRANGE = st.lists(
    st.builds(
        lambda start, length, cursor, total: ListPage(ALL[start : start + length], cursor, total),
        st.integers(0, 12),
        st.integers(0, 6),
        CURSORS,
        st.one_of(st.none(), st.integers(0, 20)),
    ),
    min_size=6,
    max_size=6,
)


@settings(max_examples=80)
@given(pages=STRANGE)
async def test_whatever_the_pages_do_it_ends_with_nothing_twice_and_nothing_made_up(
    pages: list[ListPage[Label]],
) -> None:
    """Any six pages that lead to each other in any way."""
    seen: list[Label] = []

    def answering() -> Callable[[str | None], Awaitable[ListPage[Label]]]:
        async def page(cursor: str | None) -> ListPage[Label]:
            got = pages[int(cursor.split(":")[1]) if cursor else 0]
            seen.extend(got.items)
            return got

        return page

    walked = await read_all(answering())
    assert len({label.id for label in walked.items}) == len(walked.items)
    assert set(walked.items) == set(seen)
