"""A task as evidence for a merge: what people wrote in it, when, and where to see it."""

from __future__ import annotations

from anyio import to_thread

from knowledge.errors import NoSuchSource, SourceAway
from knowledge.writing.evidence.sources import Fetched, SourceEntry
from mcp_server.connectors.errors import ConnectorError, Missing, NotAllowed, UnknownName
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.names import BadReference, ClosedProject, TooManyProjects
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.wire import SOURCE


async def fetch(board: Board, locator: str) -> Fetched:
    """Return the text that others wrote in a task and its comments, dated by the newest comment.

    The age of a description is unknown, because Plane dates a task by its last change, even of its state. So a task
    without comments is dated by its creation.

    Raises:
        NoSuchSource: there is no such task, or it may not be read.
        SourceAway: Plane cannot be reached now.
    """
    origin = f"plane:{locator}"
    try:
        project, task = await board.task(locator.partition("#")[0])
        comments = await board.comments(project, task)
        people = await board.names_of_people(project)
    except (Missing, UnknownName, NotAllowed, ClosedProject, BadReference, TooManyProjects) as error:
        raise NoSuchSource(origin, str(error)) from error
    except ConnectorError as error:
        raise SourceAway(origin, str(error)) from error
    # Text that was written through this server is no evidence: a host could cite itself.
    others = [comment for comment in comments.items if comment.external_id is None]
    is_ours = task.external_source == SOURCE
    html = [*([] if is_ours else [task.html]), *(comment.html for comment in others)]
    texts = [await to_thread.run_sync(markdown_of, one, people) for one in html]
    entries = [
        SourceEntry("Comments", "comment", text, people.get(comment.by or "", "somebody"), comment.at)
        for comment, text in zip(others, texts[len(texts) - len(others) :], strict=True)
    ]
    if not is_ours and texts[0]:
        entries.insert(0, SourceEntry("Description", "description", texts[0]))
    return Fetched(
        "\n\n".join(text for text in [*([] if is_ours else [task.name]), *texts] if text),
        max((comment.at for comment in others), default=task.created_at),
        f"{board.key(project, task)} {task.name}",
        board.url(project, task.number),
        source=f"plane:{board.key(project, task)}",
        latest=max([task.updated_at, *(comment.at for comment in others)]),
        own=is_ours and not others,
        kind="Task in Plane",
        entries=tuple(entry for entry in entries if entry.text.strip()),
        truncated=comments.note is not None,
    )
