"""The addresses of the site's pages, for links between its parts. Pure.

Each is relative to the site and safe inside an HTML attribute once it is escaped, as templates do.
"""

from __future__ import annotations

from urllib.parse import quote


def page_address(path: str, anchor: str = "") -> str:
    """Return where a page is read; `anchor` is a heading's anchor, a block's id, or `line-12`."""
    return _address("/page", "path", path) + (f"#{quote(anchor)}" if anchor else "")


def edit_address(path: str) -> str:
    """Return where a page is edited."""
    return _address("/page/edit", "path", path)


def new_page_address(path: str = "") -> str:
    """Return the address of the form that writes a page which does not exist yet."""
    return _address("/page/new", "path", path)


def folder_address(path: str) -> str:
    """Return where a folder's pages are listed; "" is the whole knowledge base."""
    return _address("/pages", "path", path)


def file_address(path: str) -> str:
    """Return where an attachment is opened or downloaded."""
    return _address("/file", "path", path)


def tag_address(tag: str) -> str:
    """Return where the pages with a tag are listed."""
    return _address("/tags", "tag", tag)


def find_address(query: str) -> str:
    """Return the results of a search."""
    return _address("/find", "q", query)


def graph_address(path: str = "") -> str:
    """Return the graph of links, around a page or of the whole knowledge base."""
    return _address("/graph", "path", path)


def history_address(path: str) -> str:
    """Return the changes of a page."""
    return _address("/history", "path", path)


def _address(place: str, name: str, value: str) -> str:
    # A name that is not UTF-8 has no address; its unreadable bytes become question marks, and the page says that nothing is there.
    return f"{place}?{name}={quote(value.encode('utf-8', 'replace'), safe='/')}" if value else place
