"""Connections for the `meilisearch` client that are kept between requests, with time limits and certificates of ours."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any

import requests
from meilisearch._httprequests import HttpRequests
from meilisearch.config import Config
from urllib3.exceptions import HTTPError

from knowledge.wire.compression import Unpacking


class Redirected(requests.exceptions.RequestException):
    """The server redirects. The page in the request would go along to wherever it says."""


class Pooled(HttpRequests):
    """Sends what the client sends, over `session`. For one thread at a time; the session may have many."""

    def __init__(self, config: Config, session: requests.Session, *, limits_s: tuple[float, float]) -> None:
        super().__init__(config)
        self._session, self._limits_s = session, limits_s
        if config.api_key is None:
            del self.headers["Authorization"]  # the client would send the key "None"

    def send_request(
        self,
        http_method: Callable[..., requests.Response],
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | list[str] | bool | bytes | str | int | None = None,  # noqa: FBT001 - the client's own signature
        content_type: str | None = None,
        *,
        serializer: type[json.JSONEncoder] | None = None,
    ) -> Any:
        """Return the answer; raises what the client raises. `http_method` is the function of `requests` of that name."""

        def over_session(url: str, **options: Any) -> requests.Response:
            ends = time.monotonic() + self._limits_s[1]
            ours = {"timeout": self._limits_s, "allow_redirects": False, "stream": True}
            with self._session.request(http_method.__name__, url, **options | ours) as response:
                if 300 <= response.status_code < 400:
                    raise Redirected(response=response)
                response.raw = io.BytesIO(_body(response, ends))
                response.content  # noqa: B018 - now the response keeps it
            return response

        return super().send_request(
            update_wrapper(partial(over_session), http_method), path, body, content_type, serializer=serializer
        )


def _body(response: requests.Response, ends: float) -> bytes:
    """Return the whole body, unpacked.

    Raises:
        BadPacking: it is larger than it may be, or can't be unpacked.
        requests.exceptions.Timeout: it is not all there when the monotonic clock says `ends`.
    """
    unpacking = Unpacking(response.headers.get("content-encoding", ""))
    body = bytearray()
    try:
        # `read1` returns what is there. `read` would wait for all that it was asked for, however slowly it drips.
        while packed := response.raw.read1(decode_content=False):
            body += b"".join(unpacking.feed(packed))
            if time.monotonic() > ends:
                raise requests.exceptions.ReadTimeout("the body takes too long")
    except HTTPError as error:
        raise requests.exceptions.ConnectionError(type(error).__name__) from error
    return bytes(body)
