"""Reads folders of HTML pages and of Word documents, through markdownify and mammoth, from the extra `import`.

HTML is sanitised before it is converted, so no script, style or handler reaches a page. A Word document is checked before it is
opened: its archive within limits, its XML without a document type, which Word never writes and attacks need.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import io
import re
import unicodedata
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any, Literal
from xml.parsers import expat

from knowledge.extras import install_command
from mcp_server.imports.model import BadSource, Incoming, IncomingFile, IncomingPage, SkippedItem
from mcp_server.imports.names.page_names import FreePaths, usable_path
from mcp_server.imports.names.relink import Relinker
from mcp_server.imports.readers.source_tree import LARGEST_FILE, SourceTree
from mcp_server.imports.readers.written_page import front_matter, heading, one_line

DocumentKind = Literal["html", "docx"]
SUFFIXES = {"html": (".html", ".htm", ".xhtml"), "docx": (".docx",)}
LARGEST_PARTS = 128 << 20
"""The most that the parts of a Word document may unpack to together."""
MOST_PARTS = 5_000
LARGEST_HTML = 16 << 20
_TITLE = re.compile(r"<title[^>]*>(.*?)</title\s*>", re.IGNORECASE | re.DOTALL)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n{3,}")
_DATA_IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp|bmp);base64,([A-Za-z0-9+/=\s]+)")
_HEADING = re.compile(r"(?m)^# \S")
ImageOf = Callable[[bytes, str], str]


def read_documents(tree: SourceTree, name: str, kind: DocumentKind) -> Incoming:
    """Return a page for each document of the folder; its pictures and other files are attachments.

    Raises:
        BadSource: the converter is not installed, or there is no document.
    """
    documents = [path for path in tree.files if path.lower().endswith(SUFFIXES[kind])]
    if not documents:
        raise BadSource(f"{tree.name} has no {kind} file")
    convert = _html_converter() if kind == "html" else _word_converter()
    skipped = list(tree.skipped)
    texts: dict[str, str] = {}
    pictures: dict[str, bytes] = {}
    for path in documents:
        try:
            texts[path] = convert(tree.page(path), _pictures(path, pictures))
        except BadSource as error:
            skipped.append(SkippedItem(path, str(error)))
    others = [path for path in tree.files if kind == "html" and path not in documents and not _is_code(path)]
    free = FreePaths()
    places = {
        path: free.free(f"{usable_path(stem := path.rpartition('.')[0])}.md", f"{stem}.md") for path in sorted(texts)
    }
    places |= {path: free.free(usable_path(path), path) for path in (*others, *pictures)}
    relinker = Relinker(places, {})
    files = [
        IncomingFile(f"{kind}:{name}/{path}", places[path], tree.files[path].size, partial(tree.attachment, path))
        for path in others
    ]
    files += [
        IncomingFile(f"{kind}:{name}/{path}", places[path], len(raw), partial(_same, raw))
        for path, raw in pictures.items()
    ]
    pages = []
    for path, text in texts.items():
        origin = f"{kind}:{name}/{path}"
        page = f"{front_matter({'source': origin})}\n{_with_heading(relinker.text(path, text), path)}"
        pages.append(IncomingPage(origin, places[path], page.encode("utf-8", "replace")))
    return Incoming(kind, name, pages, files, skipped, relinker.rewritten, relinker.lost, free.renamed)


def _same(raw: bytes) -> bytes:
    return raw


def _pictures(path: str, found: dict[str, bytes]) -> ImageOf:
    """Return a function that keeps a picture of the document and returns the path by which the text names it."""

    def keep(raw: bytes, suffix: str) -> str:
        name = f"{hashlib.sha256(raw).hexdigest()[:12]}.{suffix}"
        above = path.rpartition("/")[0]
        place = f"{above}/{name}" if above else name
        found[place] = raw
        return name

    return keep


def _with_heading(text: str, path: str) -> str:
    body = _BLANK_LINES.sub("\n\n", text).strip() + "\n"
    if _HEADING.search(body):
        return body
    title = path.rpartition("/")[2].rpartition(".")[0]
    return f"{heading(title)}\n\n{body}"


def _html_converter() -> Callable[[bytes, ImageOf], str]:
    markdownify = _loaded("markdownify")

    def convert(raw: bytes, image: ImageOf) -> str:
        return _markdown_of(markdownify, _decoded(raw), image, title=True)

    return convert


def _word_converter() -> Callable[[bytes, ImageOf], str]:
    markdownify, mammoth = _loaded("markdownify"), _loaded("mammoth")

    def convert(raw: bytes, image: ImageOf) -> str:
        _require_harmless(raw)
        try:
            html = mammoth.convert_to_html(io.BytesIO(raw), external_file_access=False).value
        except RecursionError as error:
            raise BadSource("it is nested too deep") from error
        except Exception as error:  # whatever a damaged document makes the converter raise
            raise BadSource(f"it can't be converted: {one_line(str(error))[:200]}") from error
        return _markdown_of(markdownify, html, image, title=False)

    return convert


def _markdown_of(markdownify: Any, html: str, image: ImageOf, *, title: bool) -> str:
    """Return HTML as Markdown, with pictures that are written into it as attachments."""
    import nh3

    if len(html) > LARGEST_HTML:
        raise BadSource(f"it has more than {LARGEST_HTML >> 20} million characters")
    named = _TITLE.search(html) if title else None
    clean = nh3.clean(
        html,
        tags=_TAGS,
        clean_content_tags={"script", "style", "noscript", "template", "iframe", "object", "svg", "math", "title"},
        attributes={
            "a": {"href", "title"},
            "img": {"src", "alt", "title"},
            "td": {"colspan"},
            "th": {"colspan"},
            "code": {"class"},
        },
        url_schemes={"http", "https", "mailto", "data"},
        attribute_filter=partial(_kept_attribute, image),
    )
    try:
        text: str = markdownify.markdownify(clean, heading_style="ATX", bullets="-", escape_misc=True)
    except RecursionError as error:
        raise BadSource("it is nested too deep") from error
    words = one_line(re.sub(r"<[^>]*>", "", nh3.clean(named[1], tags=set()))) if named else ""
    if words and not _HEADING.search(text):
        text = f"{heading(words)}\n\n{text}"
    return text


def _kept_attribute(image: ImageOf, tag: str, name: str, value: str) -> str | None:
    """Return the attribute's value: a picture inside the page becomes a file, and other data addresses are dropped."""
    if not value.strip().lower().startswith("data:"):
        return value
    found = _DATA_IMAGE.fullmatch(value.strip()) if (tag, name) == ("img", "src") else None
    if found is None:
        return None
    try:
        raw = base64.b64decode(re.sub(r"\s", "", found[2]), validate=True)
    except binascii.Error:
        return None
    return image(raw, {"jpeg": "jpg"}.get(found[1], found[1]))


_TAGS = {
    *("a", "abbr", "b", "blockquote", "br", "caption", "cite", "code", "dd", "del", "div", "dl", "dt", "em"),
    *("figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "mark"),
    *("ol", "p", "pre", "q", "s", "samp", "section", "article", "header", "footer", "main", "nav", "aside"),
    *("small", "span", "strike", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr"),
    *("u", "ul", "var"),
}


def _decoded(raw: bytes) -> str:
    """Return an HTML file as text, in the encoding that it names, or else UTF-8."""
    # UTF-16 has a zero byte beside each letter, so the search for a named encoding would find nothing.
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    named = _CHARSET.search(raw[:2048])
    # The named one may be unknown, or wrong.
    for encoding in (named[1].decode("ascii") if named else "utf-8", "utf-8"):
        try:
            return unicodedata.normalize("NFC", raw.decode(encoding).removeprefix("\ufeff"))
        except (LookupError, UnicodeDecodeError):
            continue
    # The usual encoding of old pages that name none.
    return raw.decode("cp1252", "replace")


def _require_harmless(raw: bytes) -> None:
    """Check a Word document before it is opened.

    Raises:
        BadSource: it is no archive, unpacks to too much, or its XML has a document type.
    """
    left = LARGEST_PARTS
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_PARTS:
                raise BadSource(f"it has more than {MOST_PARTS:,} parts")
            for entry in entries:
                if entry.file_size > min(left, LARGEST_FILE):
                    raise BadSource(f"it unpacks to more than {LARGEST_PARTS >> 20} MiB")
                with archive.open(entry) as part:
                    # The size that an archive states may be a lie, so what comes out is counted as well.
                    content = part.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise BadSource(f"it unpacks to more than {LARGEST_PARTS >> 20} MiB")
                if entry.filename.lower().endswith((".xml", ".rels")):
                    _require_plain_xml(content)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise BadSource(f"it is not a Word document: {error}") from error


def _require_plain_xml(content: bytes) -> None:
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise BadSource("its XML has a document type, which Word never writes")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    depth = 0

    def begin(*_: object) -> None:
        nonlocal depth
        depth += 1
        # The converter follows the elements by recursion, and would exhaust the stack.
        if depth > 200:
            raise BadSource("its XML is nested too deep")

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    try:
        parser.Parse(content, True)  # noqa: FBT003 - expat takes it by place
    except expat.ExpatError as error:
        raise BadSource(f"its XML is damaged: {error}") from error


def _is_code(path: str) -> bool:
    return path.lower().endswith((".js", ".css", ".map", ".mjs"))


def _loaded(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadSource(
            f"the converter {name} is not installed; install it with: {install_command('import')}"
        ) from error
