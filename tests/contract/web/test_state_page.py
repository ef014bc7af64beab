"""The pages of the whole state, with `review --web` in a process of its own: backups, restoring, moving, and what prevents them."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import anyio.to_thread
import httpx
import pytest

from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.web.address import holder
from tests.support.hosts.persons import Person
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PASSWORD, PostgresServer
from tests.support.web.passkeys import SoftPasskey
from tests.support.web.review_pages import PATIENCE_S, Visitor, forms, shown
from tests.support.web.review_processes import AGAIN_S, ReviewProcess, files_with, result, review_process, visiting

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ends a process with a signal that Windows has not")

TEA = {"tea.md": "# Tea\n\nIt takes four minutes.\n"}
INTACT = r"Audit chain: \d+ records, all intact"


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    """A person with two registered hosts, and a backup of the time when there was only one."""
    write(tmp_path / "kb", TEA)
    person = Person(tmp_path)
    person.here("enroll", "cursor")
    assert person.here("state", "backup", str(saved(person))).returncode == 0
    person.here("enroll", "zed")
    return person


async def typed(ann: Person, *words: str) -> CompletedProcess[str]:
    """Run a command in another thread, because it has an event loop of its own."""
    return await anyio.to_thread.run_sync(lambda: ann.here(*words))


def saved(ann: Person) -> Path:
    return ann.folder / "saved <script>&\u202e.db"


async def hosts(settings: Settings) -> set[str]:
    async with open_state(settings) as state:
        return {one.host for one in await state.enrolments()}


async def rehearsed(visitor: Visitor, path: Path) -> str:
    await visitor.look("/state")
    fields = next(held for action, held in forms(visitor.html).items() if action == "/state/restore")
    return await visitor.post("/state/restore", {"csrf": fields["csrf"], "path": str(path)})


async def confirmed(page: ReviewProcess, visitor: Visitor, **fields: str) -> str:
    """Confirm what is shown, and return the page with the result; "" if the process was killed."""
    visitor.status = 503
    with suppress(httpx.TransportError):
        await visitor.send("/state/confirm", **fields)
    return await result(page, visitor)


async def test_a_restore_shows_first_what_would_change_then_its_result_and_is_taken_back_on_the_page(
    ann: Person,
) -> None:
    async with review_process(ann) as page, visiting(page) as visitor:
        shown_first = await rehearsed(visitor, saved(ann))
        assert "Nothing has changed yet" in shown_first
        assert re.search(INTACT, shown_first)
        assert re.search(r"registered hosts</th><td>2</td><td>1</td>", shown_first)
        assert "Not protected by a passkey" in shown_first
        done = await confirmed(page, visitor)
        assert "The backup was restored" in done
        assert re.search(INTACT, done)
        (kept,) = ann.settings.state_dir.glob("before-restore-*.db")  # type: ignore[union-attr]
        assert kept.name in done
        again = await visitor.look("/trust")  # the person is still logged in, in a state that never knew their session
        assert "@cursor" in again
        assert "@zed" not in again
        await visitor.look("/state")
        (id_,) = re.findall(r'name="backup" value="([0-9a-f]+)"', visitor.html)
        await visitor.post("/state/restore", {"csrf": forms(visitor.html)["/state/restore"]["csrf"], "backup": id_})
        assert "The backup was restored" in await confirmed(page, visitor)
        assert "@zed" in await visitor.look("/trust")
    said = page.stop()
    assert said.count("The site is back.") == 2
    assert "Traceback" not in said


async def test_the_signal_of_a_service_manager_ends_the_site_as_ctrl_c_does(ann: Person) -> None:
    async with review_process(ann) as page:
        page.process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(page.process.wait, PATIENCE_S) == 0
        async with open_state(ann.settings) as state:
            assert await holder(state) is None, "another process can serve the site, or restore the state, at once"


async def test_a_backup_that_changed_after_it_was_shown_is_not_restored(ann: Person) -> None:
    async with review_process(ann) as page, visiting(page) as visitor:
        await rehearsed(visitor, saved(ann))
        saved(ann).unlink()
        assert (await typed(ann, "state", "backup", str(saved(ann)))).returncode == 0
        done = await confirmed(page, visitor)
        assert "Nothing was changed" in done
        assert "has changed since it was shown" in done
        assert "@zed" in await visitor.look("/trust")


async def test_nothing_is_changed_while_another_process_uses_the_state_and_the_page_names_it(ann: Person) -> None:
    async with review_process(ann) as page, visiting(page) as visitor, writing(ann.settings) as host:
        if sys.platform == "linux":  # where the system tells who has locks on a file
            assert f"Also used by process {os.getpid()}" in await visitor.look("/state")
        await rehearsed(visitor, saved(ann))
        done = await confirmed(page, visitor)
        assert "Nothing was changed" in done
        assert "is in use" in done
        assert "@zed" in await visitor.look("/trust")
        await host.merge("after.md", "# After\n\nThe host goes on.\n")
        assert (ann.kb / "after.md").exists()


async def test_what_is_no_backup_is_refused_and_the_state_in_use_is_never_read(ann: Person) -> None:
    assert ann.settings.state_dir is not None
    own, other_name = ann.settings.state_dir / "state.db", ann.folder / "other name.db"
    other_name.hardlink_to(own)
    plain = ann.folder / "plain.db"
    plain.write_text("no database", encoding="utf-8")
    foreign = ann.folder / "foreign.db"
    foreign.write_bytes(b"SQLite format 3\0" + bytes(4096))
    async with review_process(ann) as page, visiting(page) as visitor:
        for path, why in (
            (own, "belongs to the state that is in use"),
            (other_name, "belongs to the state that is in use"),
            (own.with_name("index.db"), "belongs to the state that is in use"),
            (plain, "is no backup: it does not begin as one"),
            (foreign, ""),
            (ann.folder, "there is no file"),
            (Path("saved.db"), "type the whole path"),
            (Path("~nobody-is-called-this/x"), "there is no such home folder"),
            (ann.folder / ("x" * 300), "can't be read"),
        ):
            refused = html.unescape(await rehearsed(visitor, path))
            assert visitor.status == 409, path
            assert why in refused, refused
        assert "@zed" in await visitor.look("/trust")
        assert list(ann.settings.state_dir.glob("restore-*")) == []
        done = await typed(ann, "state", "restore", str(saved(ann)), "--yes")
        assert done.returncode == 1
        assert "is in use" in done.stderr, "the locks of the page's process still hold"


async def test_a_hostile_name_of_a_backup_is_only_text(ann: Person) -> None:
    async with review_process(ann) as page, visiting(page) as visitor:
        shown_first = await rehearsed(visitor, saved(ann))
        done = await confirmed(page, visitor)
        for text in (shown_first, done):
            assert "<script>&" not in text
            assert "\u202e" not in text
        assert "\u202e" not in page.stop()


async def test_with_a_passkey_a_restore_takes_its_signature_over_what_was_shown(ann: Person) -> None:
    key = SoftPasskey()
    await anyio.to_thread.run_sync(ann.enrol_passkey, key.enrolled)
    async with review_process(ann) as page, visiting(page) as visitor:
        shown_first = await rehearsed(visitor, saved(ann))
        assert "Sign and restore" in shown_first
        assert "The backup has fewer passkeys than you have now" in shown_first
        challenge = challenge_in(shown_first)
        await rehearsed(visitor, saved(ann))
        await visitor.send("/state/confirm")
        assert "sign it with your passkey" in visitor.html
        await rehearsed(visitor, saved(ann))
        stale = json.dumps(key.assertion(challenge, page.address))
        await visitor.send("/state/confirm", assertion=stale)
        assert "the signature does not match what was shown" in visitor.html
        assert "zed" in await visitor.look("/trust")
        fresh = challenge_in(await rehearsed(visitor, saved(ann)))
        done = await confirmed(page, visitor, assertion=json.dumps(key.assertion(fresh, page.address)))
        assert "The backup was restored" in done


def challenge_in(page: str) -> bytes:
    options = json.loads(html.unescape(re.search(r'data-passkey="([^"]+)"', page)[1]))  # type: ignore[index]
    text = str(options["challenge"])
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_only_the_session_that_saw_a_rehearsal_confirms_it(ann: Person) -> None:
    async with review_process(ann) as page, visiting(page) as visitor:
        await rehearsed(visitor, saved(ann))
        token = forms(visitor.html)["/state/confirm"]["token"]
        other = await typed(ann, "review", "--web")
        link = re.search(r"http://localhost:\d+/login/\S+", other.stdout)
        assert link is not None, other
        async with visiting(ReviewProcess(page.process, link.group(), page.errors)) as stranger:
            await stranger.look("/state")
            csrf = forms(stranger.html)["/state/save"]["csrf"]
            await stranger.post("/state/confirm", {"csrf": csrf, "token": token})
            assert "look at it again" in stranger.html
            assert "@zed" in await stranger.look("/trust")


async def test_a_backup_is_saved_in_a_folder_or_sent_to_the_browser_also_where_a_host_shows_the_page(
    tmp_path: Path,
) -> None:
    async with shown(tmp_path, TEA) as place:
        visitor = await place.visitor()
        await visitor.look("/state")
        assert "close the host that started it" in visitor.html
        assert "/state/restore" not in forms(visitor.html)
        csrf = forms(visitor.html)["/state/save"]["csrf"]
        for address in ("/state/restore", "/state/move", "/state/confirm"):
            await visitor.post(address, {"csrf": csrf, "path": "/x", "url": "postgresql://a@b/c", "token": "x"})
            assert "close the host" in visitor.html
        await visitor.look("/state")
        await visitor.send("/state/save")
        assert "Not in it: the search index" in visitor.html
        assert re.search(r"Audit chain: no records|" + INTACT, visitor.html)
        (backup,) = (tmp_path / "state" / "backups").glob("*.db")
        assert backup.stat().st_mode & 0o077 == 0
        assert backup.name in visitor.html
        for folder, why in (
            (tmp_path / "kb", "where a model may edit files"),
            (tmp_path / "none", "there is no folder"),
        ):
            await visitor.look("/state")
            await visitor.send("/state/save", folder=str(folder))
            assert why in visitor.html
        sent = await visitor.http.post(
            "/state/save", data={"csrf": csrf, "send": "1"}, headers={"origin": place.address}
        )
        assert sent.content.startswith(b"SQLite format 3\0")
        assert "attachment" in sent.headers["content-disposition"]
        with anyio.fail_after(PATIENCE_S):  # the file is removed once it is sent
            while list((tmp_path / "state" / "backups").glob("*.db")) != [backup]:  # noqa: ASYNC110 - it has no event
                await anyio.sleep(AGAIN_S)
        await visitor.look("/state/outcome")
        assert "Where it is" in visitor.html, "nothing was changed here, so there is no outcome"


@pytest.mark.parametrize("step", ["kept", "compared", "after the commit"])
async def test_a_restore_on_the_page_that_is_killed_leaves_one_whole_state(ann: Person, step: str) -> None:
    before = await hosts(ann.settings)
    async with review_process(ann, crashes_at=step) as page, visiting(page) as visitor:
        await rehearsed(visitor, saved(ann))
        assert await confirmed(page, visitor) == ""
        assert page.killed
    arrived = step == "after the commit"
    assert await hosts(ann.settings) == (before - {"zed"} if arrived else before)
    assert json.loads((await typed(ann, "audit", "verify", "--json")).stdout)["sound"]
    (kept,) = ann.settings.state_dir.glob("before-restore-*.db")  # type: ignore[union-attr]
    assert (await typed(ann, "state", "restore", str(kept), "--yes")).returncode == 0
    assert await hosts(ann.settings) == before


@pytest.mark.external
async def test_the_state_is_moved_to_postgresql_and_back_and_the_password_is_nowhere(
    ann: Person, postgres: PostgresServer, schema: str
) -> None:
    url = postgres.url()
    bare = url.replace(f":{PASSWORD}", "")
    assert bare != url
    async with review_process(ann) as page, visiting(page) as visitor:
        for wrong, why in (("mysql://a@b/c", "is not the URL of a PostgreSQL"), (f"{bare}-none", "PostgreSQL")):
            await visitor.look("/state")
            await visitor.send("/state/move", url=wrong, password=PASSWORD)
            assert visitor.status == 409
            assert why in visitor.html
            assert PASSWORD not in visitor.html
        await visitor.look("/state")
        shown_first = await visitor.send("/state/move", url=bare, password=PASSWORD, schema=schema)
        assert "reached; it has no state yet" in shown_first
        done = await confirmed(page, visitor)
        assert "The state was moved" in done
        assert re.search(INTACT, done)
        assert f"database_schema = &#34;{schema}&#34;" in done
        assert ":PASSWORD@" in done
        assert "@zed" in await visitor.look("/trust")
        assert "PostgreSQL" in await visitor.look("/state")
        assert "was moved to" in (await typed(ann, "trust", "list")).stderr
        for text in (shown_first, done, visitor.html):
            assert PASSWORD not in text
        back = await visitor.send("/state/move")
        assert "From here to there" in back
        assert "The state was moved" in await confirmed(page, visitor)
    assert PASSWORD not in page.stop()
    assert {"cursor", "zed"} <= await hosts(ann.settings)
    assert json.loads((await typed(ann, "audit", "verify", "--json")).stdout)["sound"]
    assert files_with(PASSWORD, ann.folder) == []


@pytest.mark.external
@pytest.mark.parametrize("step", ["compared", "after the target's commit", "after the source's commit"])
async def test_a_move_on_the_page_that_is_killed_is_finished_by_the_same_move(
    ann: Person, postgres: PostgresServer, schema: str, step: str
) -> None:
    before = await hosts(ann.settings)
    async with review_process(ann, crashes_at=step) as page, visiting(page) as visitor:
        await visitor.look("/state")
        await visitor.send("/state/move", url=postgres.url(), schema=schema)
        assert await confirmed(page, visitor) == ""
        assert page.killed
    gone = step == "after the source's commit"
    listed = await typed(ann, "trust", "list")
    assert ("was moved to" in listed.stderr) if gone else ("@zed" in listed.stdout)
    if gone:
        assert (await typed(ann, "state", "move", postgres.url(), "--schema", schema, "--yes")).returncode == 0
    else:
        async with review_process(ann) as page, visiting(page) as visitor:
            await visitor.look("/state")
            await visitor.send("/state/move", url=postgres.url(), schema=schema)
            assert "The state was moved" in await confirmed(page, visitor)
    there = replace(ann.settings, database_url=postgres.url(), database_schema=schema)
    assert await hosts(there) == before
