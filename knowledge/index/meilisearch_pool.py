"""Connections for the `meilisearch` client that are kept between requests, with time limits and certificates of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any

import requests
from meilisearch._httprequests import HttpRequests
from meilisearch.config import Config


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
            return self._session.request(http_method.__name__, url, **options | {"timeout": self._limits_s})

        return super().send_request(
            update_wrapper(partial(over_session), http_method), path, body, content_type, serializer=serializer
        )
