"""Elements of Plane's editor that Markdown has no form for: stored pictures, mentions and the like. Pure.

A caller who rewrites a description has seen it as Markdown: a picture as a link that only Plane can show, a mention as a name.

Source: the custom elements in github.com/makeplane/plane, apps/api/plane/utils/content_validator.py and
packages/editor/src/core/extensions.
"""

from __future__ import annotations

import re
from collections import Counter

PICTURE = re.compile(r'<image-component\b[^<>]*?\ssrc="([^"<>]+)"[^<>]*>(?:</image-component>)?')
EDITOR_ELEMENT = re.compile(r"<([a-z]+-(?:component|embed))\b")
NAMES = {"mention-component": "mention", "image-component": "picture"}


def with_pictures(html: str, before: str) -> str:
    """Return `html` in which each picture that is a paragraph of its own is again the editor's element from `before`."""
    for found in PICTURE.finditer(before):
        alone = re.search(rf'<p><img src="{re.escape(found[1])}"[^<>]*></p>', html)
        if alone:
            html = html[: alone.start()] + found[0] + html[alone.end() :]
    return html


def flattened(before: str, after: str) -> str:
    """Return a note on how many of the editor's elements in `before` are only text in `after`, or ""."""
    lost = Counter(EDITOR_ELEMENT.findall(before)) - Counter(EDITOR_ELEMENT.findall(after))
    notes = [f"{count} {NAMES.get(tag, tag)}{'s' if count > 1 else ''}" for tag, count in sorted(lost.items())]
    return f"{' and '.join(notes)} of Plane's kept as plain text" if notes else ""
