"""Whether an SVG drawing only draws: then a site may hold it as a picture, otherwise as text. Pure."""

from __future__ import annotations

import re
from xml.parsers import expat

_ACTIVE = frozenset(
    {"script", "foreignobject", "iframe", "embed", "object", "audio", "video", "handler", "listener", "set", "animate"}
)
_ELSEWHERE = re.compile(r"url\s*\(\s*['\"]?\s*(?!#)|@import|expression|javascript:|image-set", re.IGNORECASE)
_OWN = re.compile(r"\s*(#|data:image/(png|jpeg|gif|webp);)", re.IGNORECASE)
LARGEST = 8 << 20
MOST_DEPTH = 500


class _Refused(Exception):
    """The drawing could do more than draw."""


def only_draws(raw: bytes) -> bool:
    """Return whether the drawing has no script, no handler, and nothing that is loaded from elsewhere."""
    if len(raw) > LARGEST:
        return False
    parser, check = expat.ParserCreate(), _Check()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = check.begin, check.end
    parser.CharacterDataHandler = check.text
    parser.ProcessingInstructionHandler = parser.EntityDeclHandler = check.refuse
    try:
        parser.Parse(raw, True)  # noqa: FBT003 - expat takes it by place
    except (_Refused, expat.ExpatError):
        return False
    return True


class _Check:
    """Looks at each part of a drawing as it is parsed, and raises at the first that could do more than draw."""

    def __init__(self) -> None:
        self._depth = 0

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Look at the beginning of an element."""
        self._depth += 1
        if self._depth > MOST_DEPTH or _local(name) in _ACTIVE:
            raise _Refused
        for key, value in attributes.items():
            local = _local(key)
            if local.startswith("on") or (local in ("href", "src") and not _OWN.match(value)):
                raise _Refused
            self.text(value)

    def end(self, _name: str) -> None:
        """Look at the end of an element."""
        self._depth -= 1

    def text(self, value: str) -> None:
        """Look at a text; style sheets are texts, and a drawing's own words never look like their addresses."""
        if _ELSEWHERE.search(value):
            raise _Refused

    def refuse(self, *_: object) -> None:
        """Refuse what no drawing needs."""
        raise _Refused


def _local(name: str) -> str:
    return name.rpartition(":")[2].lower()
