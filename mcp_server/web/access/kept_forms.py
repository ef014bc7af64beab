"""What a person typed into a form that came too late: after their session had expired, or from before they logged in again.

It is returned to them in the answer and stored nowhere: not in an address, not in a cookie, and not on the server. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NOT_KEPT = frozenset({"csrf", "secret", "do", "opened"})
"""Fields that belong to a session, and the button that was pressed: nothing is done until it is pressed again."""
TEXT = "text"


@dataclass(frozen=True, slots=True)
class KeptForm:
    """A form to be sent again to `action`: the fields that somebody typed, and the `others`."""

    action: str
    typed: Mapping[str, str]
    others: Mapping[str, str]


def kept_form(action: str, form: Mapping[str, str]) -> KeptForm | None:
    """Return the form without what must not be sent again; None if it has no prose, so that nothing is lost with it."""
    # Browsers send line ends as CR LF, and would make two of each in a form that has them already.
    kept = {name: value.replace("\r\n", "\n") for name, value in form.items() if name not in NOT_KEPT}
    typed = {name: value for name, value in kept.items() if value.strip() and (name == TEXT or len(value.split()) > 1)}
    # An address that begins with two slashes would lead to another site.
    if not typed or not action.startswith("/") or action.startswith(("//", "/\\")):
        return None
    return KeptForm(action, typed, {name: value for name, value in kept.items() if name not in typed})
