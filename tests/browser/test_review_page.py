"""The review page in a real Chromium: what a person can do there, and what nothing on it can do to them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from playwright.async_api import expect
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from mcp_server.app.composition import open_app
from mcp_server.gate.host_registration import os_user
from mcp_server.web.page_context import NAVIGATION
from mcp_server.web.text.sanitize import marks
from tests.browser.accessibility import violations
from tests.browser.chromium import Person, browser, executable, somebody
from tests.browser.payloads import LONG, MARKUP, PAYLOADS
from tests.support.hosts.writers import let_in
from tests.support.processes.socket_server import served
from tests.support.web.review_pages import PAGE, Place, shown

pytestmark = pytest.mark.external

HOST = f"{os_user()}@unenrolled"
LOOKS = """() => ({
    pwned: window.pwned,
    foreign: document.querySelectorAll(['script', 'img', 'iframe', 'svg', 'style', 'object', 'dialog', 'base', 'link', 'video']
        .map((name) => `main ${name}`).join()).length,
    scripts: [...document.scripts].map((s) => s.src).filter((src) => !src.startsWith(location.origin + '/static/')).length,
    hidden: new RegExp('[\\u202a-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\u061c\\u2060-\\u2064\\ufeff\\u00ad\\u0000-\\u0008'
        + '\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u{e0000}-\\u{e0fff}]', 'u').test(document.documentElement.outerHTML),
    marks: document.querySelectorAll('main pre .hidden-char, main pre .alike-char, main pre .no-break').length,
    width: document.documentElement.scrollWidth - innerWidth,
    links: [...document.querySelectorAll('main a')].filter((a) => a.origin !== location.origin).length,
})"""


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@asynccontextmanager
async def looking(folder: Path, **options: Any) -> AsyncIterator[tuple[Place, Person]]:
    async with shown(folder) as place, somebody(place, **options) as person:
        yield place, person
        assert person.trouble == []


async def test_a_person_logs_in_sees_the_difference_and_approves(tmp_path: Path) -> None:
    async with looking(tmp_path, viewport={"width": 1280, "height": 900}) as (place, person):
        waiting = await place.propose(intent="measured anew")
        await expect(person.page.get_by_role("link", name="merge into")).to_be_visible()
        await person.picture("waiting")
        await person.page.get_by_role("link", name="merge into").click()
        await expect(person.page.locator("del").first).to_have_text("forty")
        await expect(person.page.locator("ins").first).to_have_text("sixty")
        await person.picture("proposal-side-by-side")
        await person.page.get_by_role("link", name="Inline").click()
        await expect(person.page.locator(".diff.inline")).to_be_visible()
        await person.picture("proposal-inline")
        await unfold(person, "Add a note")
        await person.page.get_by_label("Note").fill("so it is")
        await person.page.get_by_role("button", name="Approve", exact=True).click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        await person.picture("approved")
        assert "sixty" in place.text()
        assert (await place.proposal(waiting.id)).state == "executed"


async def test_everything_can_be_done_with_the_keyboard_and_focus_is_seen(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        waiting = await place.propose()
        await person.go(f"/proposals/{waiting.id}")
        await person.page.keyboard.press("Tab")
        await expect(person.page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
        await person.page.keyboard.press("Enter")
        for _ in range(40):
            await person.page.keyboard.press("Tab")
            focused = await person.page.evaluate(
                "() => [document.activeElement.innerText, getComputedStyle(document.activeElement).outlineWidth]"
            )
            assert focused[1] != "0px", focused
            if focused[0] == "Approve":
                break
        await person.page.keyboard.press("Enter")
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        assert "sixty" in place.text()


async def test_a_person_edits_and_approves_the_result(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        waiting = await place.propose()
        await person.go(f"/proposals/{waiting.id}")
        await person.page.get_by_role("link", name="Edit and approve").click()
        content = person.page.locator('textarea[name="value.0.content"]')
        await content.fill((await content.input_value()).replace("sixty", "fifty"))
        await person.picture("edit")
        await person.page.get_by_role("button", name="Preview changes").click()
        await expect(person.page.locator("ins").first).to_have_text("fifty")
        await expect(person.page.get_by_text("Edited from")).to_be_visible()
        await person.page.get_by_role("button", name="Approve", exact=True).click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        assert "fifty" in place.text()
        assert (await place.proposal(waiting.id)).state == "superseded"


async def test_a_person_makes_it_again_where_the_page_has_changed_and_approves_that(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        waiting = await place.propose()
        changed = place.text().replace("## Rolling back", "## Going back")
        (place.settings.kb / PAGE).write_text(changed, encoding="utf-8")
        await person.go(f"/proposals/{waiting.id}")
        await expect(person.page.get_by_text("would now be a different one")).to_be_visible()
        await expect(person.page.locator("details", has_text="As proposed").locator("del")).to_be_hidden()
        await expect(person.page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
        await person.picture("changed-since")
        await person.page.get_by_role("button", name="Propose with the page as it is now").click()
        await expect(person.page.get_by_text("Made again from")).to_be_visible()
        await person.page.get_by_role("button", name="Approve", exact=True).click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        assert "sixty" in place.text()


async def test_a_person_sees_every_host_that_asks_and_freezes_all(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        (place.settings.kb / "limits.md").write_text("# Limits\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
        for host, source in (("one", "plane:KB-1"), ("two", "wiki:limits")):
            allowed = await let_in(place.settings, host, 3)
            async with open_app(allowed, indexing=False) as app, Client(app.server) as client:
                read = (await client.call_tool("kb_read", {"path": "limits.md"})).structured_content or {}
                claim = {"path": "limits.md", "content": "An upload may be 32 MiB.\n", "source": source}
                await client.call_tool("kb_merge", {**claim, "base_revision": read["revision"]})
        (flag,) = await place.app.base.state.trust.proposals(states=("pending",))
        await person.go(f"/proposals/{flag.id}")
        await expect(person.page.get_by_text("2 hosts ask for the same change")).to_be_visible()
        await expect(person.page.locator(".asker")).to_have_count(2)
        await person.picture("two-askers")
        await unfold(person, "Reject…")
        await person.page.get_by_role("button", name="freeze all 2 hosts").click()
        await expect(person.page.locator(".state-rejected").first).to_be_visible()
        for host in ("one", "two"):
            record = await place.app.base.state.trust_record(f"{os_user()}@{host}")
            assert record is not None
            assert record.frozen


async def test_a_person_rejects_and_says_why(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        waiting = await place.propose()
        await person.go(f"/proposals/{waiting.id}")
        await unfold(person, "Reject…")
        await person.page.get_by_label("Reason (sent to the host)").fill("it is forty")
        await person.page.get_by_role("button", name="Reject", exact=True).click()
        await expect(person.page.locator("blockquote")).to_have_text("it is forty")
        assert "forty" in place.text()


async def test_a_passkey_is_registered_and_signs_the_exact_act(tmp_path: Path) -> None:
    """With the DevTools virtual authenticator."""
    async with looking(tmp_path) as (place, person):
        await person.plug_in()
        await person.go("/passkeys")
        await expect(person.page.get_by_text("No passkey registered")).to_be_visible()
        await add_passkey(person, "laptop")
        await expect(person.page.get_by_role("heading", name="laptop")).to_be_visible()
        await person.picture("passkeys")
        waiting = await place.propose_deletion()
        await person.go(f"/proposals/{waiting.id}")
        await person.picture("proposal-to-sign")
        await person.page.get_by_role("button", name="Sign and approve").click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        await expect(person.page.get_by_text("signed with passkey laptop")).to_be_visible()
        decided = await place.proposal(waiting.id)
        assert decided.verdict is not None
        assert (decided.verdict.signed, decided.verdict.advisory) == ("laptop", False)
        assert not (place.settings.kb / "guides/onboarding.md").exists()
        grants = f"/trust/host?principal={HOST}"
        await person.go(grants)
        await person.page.get_by_label("Grant level").select_option("1")
        await person.page.get_by_role("button", name="Grant…").click()
        await person.page.get_by_role("button", name="Sign and approve").click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        assert await place.score() == 1.0


async def test_a_second_passkey_is_let_in_by_the_first(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        laptop = await person.plug_in()
        await person.go("/passkeys")
        await add_passkey(person, "laptop")
        await person.page.wait_for_url("**/passkeys")
        on_laptop = await person.unplug(laptop)
        phone = await person.plug_in()
        await add_passkey(person, "phone")
        await expect(person.page.get_by_role("button", name="Sign and approve")).to_be_visible()
        assert [one.name for one in await place.app.base.state.trust.passkeys()] == ["laptop"]
        await person.unplug(phone)
        await person.plug_in(on_laptop)
        await person.page.get_by_role("button", name="Sign and approve").click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        assert [one.name for one in await place.app.base.state.trust.passkeys()] == ["laptop", "phone"]


async def test_a_device_without_user_verification_cannot_be_registered(tmp_path: Path) -> None:
    """User verification is required: a touch alone could be anybody's."""
    async with looking(tmp_path) as (place, person):
        await person.plug_in(verifies=False)
        await person.go("/passkeys")
        await add_passkey(person, "stick")
        await expect(person.page.locator("[data-error]")).to_contain_text("Nothing was signed")
        assert not await place.app.base.state.trust.passkeys()


async def test_keys_move_to_a_decision_and_never_make_one(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        older = await place.propose()
        newer = await place.propose_deletion()
        keys, focused = person.page.keyboard, person.page.locator(":focus")
        await person.go("/waiting")
        for key, want in (("j", newer), ("j", older), ("k", newer)):
            await keys.press(key)
            assert await focused.get_attribute("href") == f"/proposals/{want.id}"
        await keys.press("Enter")
        await person.page.wait_for_url(f"**/proposals/{newer.id}")
        await keys.press("j")
        await person.page.wait_for_url(f"**/proposals/{older.id}")
        await keys.press("?")
        await expect(person.page.get_by_text("Enter then approves")).to_be_visible()
        await keys.press("a")
        assert await focused.inner_text() == "Approve"
        await keys.press("c")
        await keys.type("ark?")
        assert await focused.input_value() == "ark?"
        assert {(await place.proposal(one.id)).state for one in (older, newer)} == {"pending"}
        await person.page.get_by_label("Turn shortcuts off").check()
        await person.go(f"/proposals/{older.id}")
        await keys.press("r")
        await expect(person.page.get_by_label("Reason (sent to the host)")).to_be_hidden()
        await unfold(person, "Request changes…")
        await person.page.get_by_label("Changes (sent to the host)").fill("since when?")
        await person.page.get_by_role("button", name="Request changes").click()
        await expect(person.page.get_by_text("changes requested").first).to_be_visible()
        assert (await place.proposal(older.id)).state == "rejected"


async def test_several_are_selected_and_decided_with_keys(tmp_path: Path) -> None:
    async with looking(tmp_path, viewport={"width": 360, "height": 740}) as (place, person):
        older = await place.propose()
        newer = await place.propose_deletion()
        keys, focused = person.page.keyboard, person.page.locator(":focus")
        await person.go("/waiting")
        await keys.press("*")
        assert await person.page.locator("[name=p]:checked").count() == 2
        await keys.press("*")
        await keys.press("j")
        await keys.press("x")
        assert await person.page.locator("[name=p]:checked").count() == 1
        await keys.press("*")
        await keys.press("a")
        assert await focused.inner_text() == "Approve selected…"
        await keys.press("Enter")
        await person.page.wait_for_url("**/together?**")
        bar = person.page.locator("#decide")
        await person.picture("360-together")
        assert await rows(person) <= 2
        for _ in range(2):
            await keys.press("j")
            card = await focused.bounding_box()
            assert card is not None
            box = await bar.bounding_box()
            assert box is not None
            assert card["y"] + card["height"] <= box["y"], "the bar covers no proposal that a key moved to"
        assert await focused.get_attribute("href") == f"/proposals/{older.id}"
        await keys.press("x")
        await keys.press("?")
        await expect(person.page.get_by_text("select or deselect this proposal")).to_be_visible()
        await keys.press("r")
        assert await focused.inner_text() == "Reject checked"
        await keys.press("Enter")
        await expect(person.page.get_by_text("1 rejected")).to_be_visible()
        assert [(await place.proposal(one.id)).state for one in (older, newer)] == ["pending", "rejected"]


async def test_all_proposals_are_selected_without_javascript_too(tmp_path: Path) -> None:
    async with looking(tmp_path, java_script_enabled=False) as (place, person):
        chosen = [await place.propose(), await place.propose_deletion()]
        await person.go("/waiting")
        await person.page.get_by_role("link", name="Select all").click()
        await person.page.get_by_role("button", name="Reject selected…").click()
        await person.page.get_by_role("link", name="Select none").click()
        assert await person.page.get_by_label("Decide on this one").first.is_checked() is False
        await person.page.get_by_role("link", name="Select all").click()
        await person.page.get_by_role("button", name="Reject checked").click()
        assert {(await place.proposal(one.id)).state for one in chosen} == {"rejected"}


async def rows(person: Person) -> int:
    """Return in how many rows the decision has its buttons."""
    buttons = person.page.locator("#decide form > .actions > button, #decide summary, #decide a.button")
    boxes = [await button.bounding_box() for button in await buttons.all() if await button.is_visible()]
    middles = sorted(box["y"] + box["height"] / 2 for box in boxes if box is not None)
    return 1 + sum(following - middle > 15 for middle, following in pairwise(middles))


async def unfold(person: Person, choice: str) -> None:
    """Open a part of the decision that is folded away."""
    await person.page.locator(".decide summary", has_text=choice).click()


async def add_passkey(person: Person, name: str) -> None:
    await person.page.get_by_label("Name").fill(name)
    await person.page.get_by_role("button", name="Add…").click()
    await person.page.get_by_role("button", name="Create passkey").click()


async def test_the_second_of_two_tabs_shows_a_decision_automatically(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        waiting = await place.propose()
        other = await person.tab()
        await other.go(f"/proposals/{waiting.id}")
        await unfold(other, "Reject…")
        await other.page.get_by_label("Reason (sent to the host)").fill("half typed")
        third = await person.tab()
        await third.go("/waiting")
        await person.go(f"/proposals/{waiting.id}")
        await person.page.get_by_role("button", name="Approve", exact=True).click()
        await expect(other.page.locator(".state-executed").first).to_be_visible()
        await expect(other.page.get_by_role("button", name="Reject", exact=True)).to_have_count(0)
        await expect(third.page.get_by_text("Nothing is waiting")).to_be_visible()


async def test_two_tabs_deciding_at_the_same_time_make_one_decision(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        waiting = await place.propose()
        other = await person.tab()
        for tab in (person, other):
            await tab.page.add_init_script("window.EventSource = class { addEventListener() {} close() {} }")
            await tab.go(f"/proposals/{waiting.id}")
        await person.page.get_by_role("button", name="Approve", exact=True).click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        await unfold(other, "Reject…")
        await other.page.get_by_role("button", name="Reject", exact=True).click()
        await expect(other.page.get_by_role("alert")).to_contain_text("is no longer pending")
        await other.picture("too-late")
        assert (await place.proposal(waiting.id)).state == "executed"


async def test_a_new_proposal_appears_automatically_and_is_announced(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        await expect(person.page.get_by_text("Updates automatically")).to_be_visible()
        await place.propose()
        await expect(person.page.get_by_role("link", name="merge into")).to_be_visible()
        await expect(person.page.locator("[data-count]")).to_have_text("1")
        await expect(person.page.get_by_role("status")).to_have_text("The list has changed.")


async def test_without_javascript_all_but_passkeys_works(tmp_path: Path) -> None:
    async with looking(tmp_path, java_script_enabled=False) as (place, person):
        waiting = await place.propose(new="sixty " + "and so on " * 2_000 + "THE END")
        await person.page.get_by_role("link", name="Refresh").click()
        await person.page.get_by_role("link", name="merge into").click()
        await expect(person.page.get_by_role("button", name="Approve")).to_be_disabled()
        await person.picture("folded")
        await person.page.get_by_role("link", name="Show all").click()
        await expect(person.page.get_by_text("THE END").first).to_be_visible()
        await person.page.get_by_role("button", name="Approve", exact=True).click()
        assert (await place.proposal(waiting.id)).state == "executed"
        await person.go("/passkeys")
        await expect(person.page.get_by_text("Passkeys need JavaScript")).to_be_visible()


VISIBLE = """(selector) => {
    const box = document.querySelector(selector).getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    return document.querySelector(selector).contains(document.elementFromPoint(x, y));
}"""
"""Whether the middle of an element is on the screen and nothing lies over it."""


@pytest.mark.parametrize("width", [360, 768, 1440])
async def test_the_decision_stays_in_view_beside_the_changes_and_covers_no_part_of_the_page_for_good(
    tmp_path: Path, width: int
) -> None:
    """Without JavaScript, too."""
    options = {"viewport": {"width": width, "height": 740}, "java_script_enabled": False}
    async with looking(tmp_path, **options) as (place, person):
        waiting = await place.propose(new="sixty\n\n" + "\n\n".join(f"Line {n}. " * 9 for n in range(30)))
        await person.go(f"/proposals/{waiting.id}")
        approve, last = '[action$="/approve"] button', '[aria-labelledby="who"]'
        end = await person.page.evaluate("document.documentElement.scrollHeight")
        for at in range(0, end, 300):
            await person.page.evaluate(f"scrollTo(0, {at})")
            assert await person.page.evaluate(VISIBLE, approve), at
        bar, who = [await person.page.locator(one).bounding_box() for one in ("#decide", last)]
        assert bar is not None
        assert who is not None
        assert width > 360 or await rows(person) <= 2
        beside = who["x"] + who["width"] <= bar["x"]
        assert beside or who["y"] + who["height"] <= bar["y"]
        assert beside == (width == 1440)
        await unfold(person, "Reject…")
        await person.page.get_by_label("Reason (sent to the host)").fill("it is forty")
        await person.page.get_by_role("button", name="Reject", exact=True).click()
        assert (await place.proposal(waiting.id)).state == "rejected"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_fits_360_pixels_and_can_be_read_in_both_schemes(tmp_path: Path, scheme: str) -> None:
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    async with looking(tmp_path, **options) as (place, person):
        waiting = await place.propose(new="sixty\u202e seconds " + "averylongword" * 30, intent="an_intent_" * 30)
        await place.propose_deletion()
        one = f"/proposals/{waiting.id}"
        paths = [*(entry.path for entry in NAVIGATION), one, f"{one}?layout=inline", f"{one}/edit"]
        for path in [*paths, f"/trust/host?principal={HOST}", "/nowhere"]:
            await person.go(path)
            looks = await person.page.evaluate(LOOKS)
            assert looks["width"] <= 0, path
            assert await contrast(person) >= 4.5, path
            assert await violations(person.page) == [], path
            name = re.sub(r"\W+", "-", path.replace(waiting.id, "one").replace(HOST, "host")).strip("-") or "waiting"
            await person.picture(f"360-{scheme}-{name}")


async def contrast(person: Person) -> float:
    """Return the lowest contrast between text and its background (WCAG 2.2, 1.4.3) among the page's texts."""
    least: float = await person.page.evaluate("""() => {
        const number = (text) => text.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (element) => {
            for (let at = element; at; at = at.parentElement) {
                const colour = number(getComputedStyle(at).backgroundColor);
                if (colour.length === 3 || colour[3] > 0) return colour;
            }
            return [255, 255, 255];
        };
        let least = 21;
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const element = texts.currentNode.parentElement;
            if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest(':disabled')) continue;
            const [a, b] = [light(number(getComputedStyle(element).color)), light(behind(element))];
            least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
        }
        return least;
    }""")
    return least


async def test_the_search_for_barriers_finds_a_field_without_a_label() -> None:
    async with browser() as started:
        page = await started.new_page()
        await page.set_content("<!doctype html><html lang=en><title>t</title><main><h1>h</h1><input></main>")
        assert [one.split()[0] for one in await violations(page)] == ["label"]


async def test_a_hundred_hostile_texts_are_shown_and_do_nothing(tmp_path: Path) -> None:
    """Script, ANSI, bidi, tag characters, 1 MB of text."""
    assert len(PAYLOADS) == 100
    async with looking(tmp_path) as (place, person):
        for number, payload in enumerate(PAYLOADS):
            asked = {
                "path": f"hostile/{number}.md",
                "content": f"# Page {number}\n\n{payload}\n",
                "intent": payload[:400],
            }
            answer = await place.call("kb_merge", **asked)
            assert answer["status"] == "proposed", (number, answer["note"])
            waiting = answer["proposal"]["id"]
            for path in ("/waiting", f"/proposals/{waiting}", f"/proposals/{waiting}?whole=1&layout=inline"):
                await person.go(path)
                looks = await person.page.evaluate(LOOKS)
                assert looks["pwned"] is None, (number, path)
                assert not looks["foreign"] + looks["scripts"] + looks["links"], (number, path, looks)
                assert not looks["hidden"], (number, path)
                assert looks["width"] <= 0, (number, path)
            if payload in MARKUP:
                await expect(person.page.locator(".diff")).to_contain_text(payload)
            assert bool(looks["marks"]) == bool(marks(payload)), (number, looks)
            await place.call("proposal_withdraw", proposal_id=waiting)
            if number in (0, 50, 92):
                await person.picture(f"hostile-{number}", whole=payload not in LONG)
        await person.go("/decided")
        assert (await person.page.evaluate(LOOKS))["pwned"] is None


async def test_a_page_on_another_port_can_neither_frame_nor_send_nor_read(tmp_path: Path) -> None:
    """To a browser, another port of localhost is the same site: cookies are sent. The other checks must stop it."""
    async with shown(tmp_path) as place, somebody(place) as person:
        waiting = await place.propose()
        html = f"""<!doctype html><title>evil</title>
            <iframe src="{place.address}/proposals/{waiting.id}"></iframe>
            <form id="f" method="post" action="{place.address}/proposals/{waiting.id}/reject">
            <input name="hash" value="{waiting.hash}"></form>"""

        async def evil(_request: object) -> HTMLResponse:
            return HTMLResponse(html)

        async with served(Starlette(routes=[Route("/", evil)])) as elsewhere:
            await person.page.goto(elsewhere)
            frame = person.page.frames[1]
            assert waiting.id not in await frame.content()
            read = await person.page.evaluate(
                "async (url) => { try { return await (await fetch(url, {credentials: 'include'})).text() } catch (e) { return '' } }",
                f"{place.address}/",
            )
            assert read == ""
            async with person.page.expect_response(lambda answer: answer.request.method == "POST") as sent:
                await person.page.evaluate("document.getElementById('f').submit()")
            assert (await sent.value).status == 403
        assert (await place.proposal(waiting.id)).state == "pending"


async def test_a_browser_that_is_not_logged_in_sees_how_to(tmp_path: Path) -> None:
    async with shown(tmp_path) as place, browser() as started:
        page = await started.new_page()
        await page.goto(place.address)
        await expect(page.get_by_text("knowledge-forge review --web")).to_be_visible()
        assert PAGE not in await page.content()


async def test_all_of_a_long_hostile_proposal_arrives_runs_nothing_and_can_be_approved(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        waiting = await place.propose(new="sixty\n\n" + "\n\n".join(MARKUP * 40))
        await person.go(f"/proposals/{waiting.id}?whole=1")
        await expect(person.page.locator("#whole")).to_be_visible()
        told = await person.page.evaluate(LOOKS)
        assert (told["pwned"], told["foreign"], told["scripts"], told["links"]) == (None, 0, 0, 0)
        await person.page.get_by_role("button", name="Approve", exact=True).click()
        await expect(person.page.locator(".state-executed").first).to_be_visible()
        assert MARKUP[0] in place.text()
