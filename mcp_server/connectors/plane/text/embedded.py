"""What Plane's editor puts into a text that Markdown has no form for: pictures that it stores, mentions, and the like. Pure.

Whoever writes a description anew got it as Markdown: a picture as a link to what only Plane can show, a mention as a name.

Source: the custom elements in github.com/makeplane/plane, apps/api/plane/utils/content_validator.py and
packages/editor/src/core/extensions.
"""

from __future__ import annotations

import re
from collections import Counter

PICTURE = re.compile(r'<image-component\b[^<>]*?\ssrc="([^"<>]+)"[^<>]*>(?:</image-component>)?')
OWN = re.compile(r"<([a-z]+-(?:component|embed))\b")
CALLED = {"mention-component": "mention", "image-component": "picture"}


def with_pictures(html: str, before: str) -> str:
    """Return `html` with each picture that stands alone, and that Plane stores, as the element that it is in `before`."""
    for found in PICTURE.finditer(before):
        element, source = found.group(0), found.group(1)
        alone = re.search(rf'<p><img src="{re.escape(source)}"[^<>]*></p>', html)
        if alone:
            html = html[: alone.start()] + element + html[alone.end() :]
    return html


def flattened(before: str, after: str) -> str:
    """Return how many of the editor's own elements in `before` are plain words in `after`; "" where none is."""
    lost = Counter(OWN.findall(before)) - Counter(OWN.findall(after))
    told = [_counted(CALLED.get(name, name), number) for name, number in sorted(lost.items())]
    return f"{' and '.join(told)} of Plane's kept as plain text" if told else ""


def _counted(name: str, number: int) -> str:
    return f"{number} {name}{'s' if number > 1 else ''}"
