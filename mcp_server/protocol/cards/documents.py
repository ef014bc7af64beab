"""The documents of the cards: one HTML page for each kind, complete in itself. Pure but for reading its own files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
TITLES: Final[Mapping[str, str]] = {"hits": "Search results", "proposal": "A change", "journey": "A journey"}
"""The kinds of cards, each with its title."""


@cache
def document(kind: str) -> str:
    """Return the HTML of a kind of card. It loads nothing, and its own policy allows only its own script and style."""
    script, style = ((HERE / name).read_text(encoding="utf-8") for name in ("card.js", "card.css"))
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><title>{TITLES[kind]}</title><style>{style}</style></head>'
        f'<body data-card="{kind}"><main aria-live="polite"></main><script>{script}</script></body></html>'
    )


def _hash(text: str) -> str:
    """Return the source expression that allows an inline element with exactly this text (CSP 3)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
