"""Signed webhook requests, as the specification's own libraries sign them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mcp_server.connectors.errors import ConnectorError, Denied, ServiceRefused
from mcp_server.connectors.request.wire import ServiceReply
from mcp_server.connectors.webhook.wire import TargetGone, delivery, require_accepted, signature

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
AT = datetime.fromtimestamp(1614265330, UTC)


def test_the_signature_is_that_of_the_specifications_libraries() -> None:
    """Source: Standard Webhooks, libraries/javascript/src/webhook.test.ts ("sign function works")."""
    signed = signature(KEY, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert (
        signature(KEY.removeprefix("whsec_"), "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
        == signed
    )


def test_while_a_secret_is_changed_both_sign() -> None:
    other = "whsec_" + "A" * 40
    request = delivery("/hook?key=1", b"{}", "kf-1", AT, (KEY, other))
    signatures = [signature(secret, "kf-1", "1614265330", b"{}") for secret in (KEY, other)]
    assert request.headers["webhook-signature"] == " ".join(signatures)
    assert (request.headers["webhook-id"], request.headers["webhook-timestamp"]) == ("kf-1", "1614265330")
    assert (request.method, request.path, request.content, request.repeatable) == ("POST", "/hook?key=1", b"{}", False)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (410, TargetGone),
        (401, Denied),
        (403, Denied),
        (400, ServiceRefused),
        (404, ServiceRefused),
        (413, ServiceRefused),
    ],
)
def test_a_status_says_whether_the_message_was_taken(status: int, error: type[ConnectorError]) -> None:
    require_accepted(ServiceReply(200, {}, None), "releases")
    require_accepted(ServiceReply(204, {}, None), "releases")
    with pytest.raises(error, match=r"releases.*nothing was done"):
        require_accepted(ServiceReply(status, {}, None), "releases")
