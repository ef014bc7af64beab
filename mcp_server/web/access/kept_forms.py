"""The text that a person typed into a form that arrives too late: their session has expired, or they have logged in again since.

The text is returned to them in the answer and stored nowhere: not in an address, not in a cookie, and not on the server. Pure.
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
    """Return the form to be sent again, without the fields in `NOT_KEPT`.

    None if it holds no text that a person wrote, so that nothing is lost with it, or if `action` could lead to another site.
    """
    # Browsers send line ends as CR LF, and would make two of each in a form that has them already.
    kept = {name: value.replace("\r\n", "\n") for name, value in form.items() if name not in NOT_KEPT}
    typed = {name: value for name, value in kept.items() if value.strip() and (name == TEXT or len(value.split()) > 1)}
    # An address that begins with two slashes would lead to another site.
    if not typed or not action.startswith("/") or action.startswith(("//", "/\\")):
        return None
    return KeptForm(action, typed, {name: value for name, value in kept.items() if name not in typed})
