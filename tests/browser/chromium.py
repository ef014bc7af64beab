"""A real Chromium with a person in front of it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from playwright.async_api import Browser, BrowserContext, CDPSession, Error, Page, async_playwright

from tests.external.programs import unavailable

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
PATIENCE_MS = 20_000


class ShownSite(Protocol):
    """A site that somebody shows."""

    @property
    def address(self) -> str: ...

    async def link(self) -> str:
        """Return a link that logs in."""
        ...


@dataclass
class Person:
    """A person who looks at the page.

    `trouble` collects what must not happen: dialogs, script errors, refused resources.
    """

    context: BrowserContext
    page: Page
    place: ShownSite
    trouble: list[str] = field(default_factory=list)
    devtools: CDPSession | None = None

    async def go(self, path: str) -> None:
        try:
            await self.page.goto(f"{self.place.address}{path}")
        except Error as error:
            # On a busy machine Chromium drops a navigation that begins while the last one is still ending.
            if "ERR_ABORTED" not in str(error):
                raise
            await self.page.goto(f"{self.place.address}{path}")

    async def log_in(self) -> None:
        await self.page.goto(await self.place.link())
        await self.page.get_by_role("button", name="Log in").click()
        await self.page.wait_for_url(f"{self.place.address}/waiting")

    async def tab(self) -> Person:
        """Open another tab of the same browser."""
        return self.watched(await self.context.new_page())

    def watched(self, page: Page) -> Person:
        person = Person(self.context, page, self.place, self.trouble)
        page.set_default_timeout(PATIENCE_MS)
        page.on("dialog", lambda dialog: self.trouble.append(f"dialog {dialog.message}"))
        page.on("pageerror", lambda error: self.trouble.append(f"error {error}"))
        page.on("console", self._heard)
        return person

    def _heard(self, message: Any) -> None:
        # The console also shows an error for a page that refuses (409, 422, 403), or that waits for the site to come back (503).
        if message.type == "error" and not re.search("status of (4|503)", message.text):
            self.trouble.append(f"console {message.text}")

    async def picture(self, name: str, *, whole: bool = True) -> None:
        ARTEFACTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=whole)

    async def plug_in(self, credentials: Sequence[Any] = (), *, verifies: bool = True) -> str:
        """Give this tab a device with these passkeys, which the person unlocks at once, and return its number."""
        if self.devtools is None:
            self.devtools = await self.context.new_cdp_session(self.page)
            await self.devtools.send("WebAuthn.enable")
        device = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": verifies,
            "automaticPresenceSimulation": True,
        }
        added = await self.devtools.send("WebAuthn.addVirtualAuthenticator", {"options": device})
        number = str(added["authenticatorId"])
        for credential in credentials:
            await self.devtools.send("WebAuthn.addCredential", {"authenticatorId": number, "credential": credential})
        return number

    async def unplug(self, number: str) -> Sequence[Any]:
        """Take the device away, and return the passkeys on it."""
        assert self.devtools is not None
        held = await self.devtools.send("WebAuthn.getCredentials", {"authenticatorId": number})
        await self.devtools.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": number})
        credentials: Sequence[Any] = held["credentials"]
        return credentials


def executable() -> str:
    """Return where Chromium is; without it the test is skipped, or fails where external programs are required."""
    return shutil.which("chromium") or unavailable("chromium")


@asynccontextmanager
async def browser(*arguments: str) -> AsyncIterator[Browser]:
    """Start Chromium with further arguments."""
    path = executable()
    # In a container without user namespaces, and as root, its sandbox cannot start.
    sandbox = os.name == "nt" or os.getuid() != 0
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, chromium_sandbox=sandbox, args=arguments)
        try:
            yield started
        finally:
            await started.close()


@asynccontextmanager
async def somebody(place: ShownSite, *, logged_in: bool = True, **options: Any) -> AsyncIterator[Person]:
    """Open a fresh browser for a person."""
    async with browser() as started:
        context = await started.new_context(**options)
        person = Person(context, await context.new_page(), place)
        person = person.watched(person.page)
        if logged_in:
            await person.log_in()
        yield person
