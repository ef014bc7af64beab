"""Links that are looked up beforehand, so that a page can be rendered where nothing can be looked up: in another process.

`rendered` takes the steps: it asks for the targets of a page, then for those of the texts that it embeds, and then renders. All
values can be pickled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from knowledge.offload import A, R
from mcp_server.web.markdown.page_parts import WHOLE_PAGE, PageSlice
from mcp_server.web.markdown.rendered_page import RenderedPage
from mcp_server.web.markdown.renderer import DEEPEST_EMBED, render

Answers = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class KnownLinks:
    """`PageLinks` as tables: the addresses of `pages` and `files`, and the embedded `texts`, by target.

    A target that is absent, or that has None, leads nowhere. `inner` has the links of each embedded page, by the target that
    embeds it.
    """

    pages: Answers = field(default_factory=dict)
    files: Answers = field(default_factory=dict)
    texts: Answers = field(default_factory=dict)
    inner: Mapping[str, KnownLinks] = field(default_factory=dict)

    def page(self, target: str) -> str | None:
        """Return the address of a page, None if it is missing."""
        return self.pages.get(target)

    def file(self, target: str) -> str | None:
        """Return the address of an attachment, None if it is missing."""
        return self.files.get(target)

    def embedded(self, target: str) -> str | None:
        """Return the text to embed, None if it is missing."""
        return self.texts.get(target)

    def inside(self, target: str) -> KnownLinks:
        """Return the links of the page that is embedded by this target."""
        return self.inner.get(target, NOTHING_KNOWN)

    @property
    def has_texts(self) -> bool:
        """Whether there is a text to embed, on any level."""
        return any(self.texts.values()) or any(one.has_texts for one in self.inner.values())

    def and_also(self, more: KnownLinks) -> KnownLinks:
        """Return these links and `more` together."""
        inner = {target: self.inside(target).and_also(found) for target, found in more.inner.items()}
        return KnownLinks(
            {**self.pages, **more.pages},
            {**self.files, **more.files},
            {**self.texts, **more.texts},
            {**self.inner, **inner},
        )


NOTHING_KNOWN = KnownLinks()


@dataclass(frozen=True, slots=True)
class WrittenTargets:
    """The targets of a page, each once, as the page writes them: those of links, of files, and of embedded texts.

    `inner` has the targets of each embedded page, by the target that embeds it.
    """

    pages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    embedded: tuple[str, ...] = ()
    inner: Mapping[str, WrittenTargets] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RenderOrder:
    """All that rendering needs, as one value."""

    text: str
    links: KnownLinks
    part: PageSlice = WHOLE_PAGE


LookUp = Callable[[WrittenTargets], Awaitable[KnownLinks]]


class RendersApart(Protocol):
    """Computes a step in another process, if it is large."""

    async def __call__(self, step: Callable[[A], R], argument: A, *, size: int) -> R:
        """Return `step(argument)`; `size` is the number of characters that it reads."""
        ...


async def rendered(text: str, look_up: LookUp, apart: RendersApart, part: PageSlice = WHOLE_PAGE) -> RenderedPage:
    """Return the page, rendered by `apart`. `look_up` returns what it knows of the targets that it is asked about.

    Raises:
        TooMuchWork: the other process gave up. Only a slow machine gets there before the renderer's own limits apply.
        TooMuchWaiting: the caller has too many pages in progress.
    """
    order = RenderOrder(text, KnownLinks(), part)
    size = min(len(text), part.most)
    for _ in range(DEEPEST_EMBED + 1):
        more = await look_up(await apart(unknown_targets, order, size=size))
        order = RenderOrder(text, order.links.and_also(more), part)
        if not more.has_texts:
            break
    return await apart(render_order, order, size=size)


def unknown_targets(order: RenderOrder) -> WrittenTargets:
    """Return the targets of the page, and of the embedded texts that are known, that are not in `order.links`."""
    asked = _Asked(order.links)
    render(order.text, asked, part=order.part)
    return asked.unknown()


def render_order(order: RenderOrder) -> RenderedPage:
    """Return the page."""
    return render(order.text, order.links, part=order.part)


class _Asked:
    """A `PageLinks` that notes each target that it is asked about. Dictionaries keep the targets in order."""

    def __init__(self, known: KnownLinks) -> None:
        self._known = known
        self.pages: dict[str, None] = {}
        self.files: dict[str, None] = {}
        self.texts: dict[str, None] = {}
        self.inner: dict[str, _Asked] = {}

    def page(self, target: str) -> str | None:
        self.pages[target] = None
        return self._known.page(target)

    def file(self, target: str) -> str | None:
        self.files[target] = None
        return self._known.file(target)

    def embedded(self, target: str) -> str | None:
        self.texts[target] = None
        return self._known.embedded(target)

    def inside(self, target: str) -> _Asked:
        return self.inner.setdefault(target, _Asked(self._known.inside(target)))

    def unknown(self) -> WrittenTargets:
        return WrittenTargets(
            tuple(target for target in self.pages if target not in self._known.pages),
            tuple(target for target in self.files if target not in self._known.files),
            tuple(target for target in self.texts if target not in self._known.texts),
            {target: asked.unknown() for target, asked in self.inner.items()},
        )
