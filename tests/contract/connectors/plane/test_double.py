"""The double of Plane is checked against the real one.

Every recorded request is replayed against it, in the recorded order.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from tests.doubles.plane import ADA, GUS, MEL, OTTO, PRIORITIES, Answer, Plane
from tests.support.plane.samples import FOLDER, SAMPLES, Sample

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
WHO = {
    "err_other_workspace": OTTO,
    "err_other_project_403": OTTO,
    "err_guest_create_403": GUS,
    "guest_list": GUS,
    "err_member_delete_state": MEL,
    "err_nonmember_project_403": MEL,
}
"""Whose key was used; the others are the administrator's. The recording contains no secrets."""

UNTOLD = {
    "avatar_url",
    "content-length",
    "epoch",
    "logo_props",
    "metadata",
    "member_role",
    "sequence",
    "sort_order",
    "slug",
}
"""Values that are the program's own business: only their presence and type are compared."""

HEADERS = ("retry-after", "x-ratelimit-remaining", "x-ratelimit-reset")


def test_the_double_answers_every_recorded_request_as_the_real_server_did() -> None:
    """Source: tests/samples/plane, recorded from a community edition 1.2.3."""
    replay = Replay()
    wrong = [f"{name}: {odd}" for name in SAMPLES for odd in replay.differences(SAMPLES[name])]
    assert wrong == []
    assert {path.stem for path in FOLDER.glob("*.json")} == set(SAMPLES)


class Replay:
    """The recording, replayed against an empty workspace; its ids are replaced by the double's."""

    def __init__(self) -> None:
        self._moment = datetime(2026, 11, 20, 21, 1, tzinfo=UTC)
        self.plane = Plane(now=self._now, monotonic=lambda: 0.0, allowance=300)
        self.ids: dict[str, str] = {account.id: account.id for account in (ADA, MEL, GUS, OTTO)}

    def differences(self, sample: Sample) -> list[str]:
        """Return the differences of the double's answer to that request."""
        self._before(sample)
        answer = self._ask(sample)
        if answer.status != sample.status:
            return [f"status {answer.status} {answer.body} instead of {sample.status}"]
        odd = [f"header {name}" for name in HEADERS if (name in answer.headers) != (name in sample.headers)]
        told = "" if answer.body is None else json.loads(json.dumps(answer.body))
        return odd + self._compared("", sample.body, told)

    def _now(self) -> datetime:
        self._moment += timedelta(milliseconds=1)
        return self._moment

    def _before(self, sample: Sample) -> None:
        """Make the changes that were made in between without being recorded."""
        if sample.name == "work_items_list_default":
            for number in range(25):
                self.plane.add_task("KB", f"Bulk item {number:02}", priority=PRIORITIES[::-1][number % 5])
        if sample.name == "work_item_delete_204":
            made = self.plane.add_task("KB", "to be deleted")
            self.ids["8a8edf49-01f5-460b-8772-b3ba054f426a"] = made["id"]
        if sample.name == "err_429":
            self.plane.allowance = 1

    def _ask(self, sample: Sample) -> Answer:
        headers = dict(sample.sent_headers)
        if "x-api-key" in headers:
            headers["x-api-key"] = "wrong" if sample.name == "err_bad_key" else WHO.get(sample.name, ADA).key
        sent = sample.sent if isinstance(sample.sent, str) or sample.sent is None else json.dumps(sample.sent)
        content = (self._translated(sent) if sent else "").encode()
        target = urlsplit(self._translated(sample.target))
        answer = self.plane.answered(sample.method, target.path, target.query, headers, content)
        if answer.status == 301:
            # The recording client followed, as most do: with a GET.
            assert sample.name.startswith("err_no_trailing_slash")
            onwards = urlsplit(answer.headers["location"])
            answer = self.plane.answered("GET", onwards.path, onwards.query, headers, b"")
        return answer

    def _translated(self, text: str) -> str:
        return UUID.sub(lambda found: self.ids.get(found[0], found[0]), text)

    def _compared(self, where: str, real: Any, told: Any) -> list[str]:
        name = re.sub(r"\[\d+\]", "", where).rpartition(".")[2]
        if name in UNTOLD and type(real) is type(told):
            return []
        if isinstance(real, str) and isinstance(told, str):
            return [] if self._same_text(real, told) else [f"{where} is {told!r} instead of {real!r}"]
        if isinstance(real, dict) and isinstance(told, dict):
            odd = [f"{where} has {sorted(set(real) ^ set(told))}"] if set(real) != set(told) else []
            return odd + [
                one for key in real if key in told for one in self._compared(f"{where}.{key}", real[key], told[key])
            ]
        if isinstance(real, list) and isinstance(told, list):
            odd = [f"{where} has {len(told)} instead of {len(real)}"] if len(real) != len(told) else []
            pairs = enumerate(zip(real, told, strict=False))
            return odd + [one for at, (a, b) in pairs for one in self._compared(f"{where}[{at}]", a, b)]
        return [] if real == told and type(real) is type(told) else [f"{where} is {told!r} instead of {real!r}"]

    def _same_text(self, real: str, told: str) -> bool:
        if UUID.fullmatch(real) and UUID.fullmatch(told):
            return self.ids.setdefault(real, told) == told
        if TIME.fullmatch(real) and TIME.fullmatch(told):
            return True
        return self._translated(real) == told
