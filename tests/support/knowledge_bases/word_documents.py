"""Small Word documents, harmless and hostile, as bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from html import escape

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"


def word_document(
    title: str,
    text: str,
    *,
    picture: bytes = b"",
    linked: str = "",
    prologue: str = "",
    nested: int = 0,
    more: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a document with a heading and a paragraph.

    `picture` is inside, `linked` names one outside; `prologue` stands before the document's XML, in which `nested` elements lie in
    each other; `more` are further parts.
    """
    attribute = "r:link" if linked else "r:embed"
    drawing = (
        f'<w:r><w:drawing><wp:inline xmlns:wp="{_DRAWING}/wordprocessingDrawing"><a:graphic xmlns:a="{_DRAWING}/main"><a:graphicData>'
        f'<pic:pic xmlns:pic="{_DRAWING}/picture"><pic:blipFill><a:blip {attribute}="rId9"/></pic:blipFill></pic:pic>'
        "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
        if picture or linked
        else ""
    )
    body = (
        f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{escape(title)}</w:t></w:r></w:p>'
        f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r>{drawing}</w:p>" + "<w:sdt>" * nested + "</w:sdt>" * nested
    )
    target = f'Target="{escape(linked)}" TargetMode="External"' if linked else 'Target="media/one.png"'
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": (
            f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="png" ContentType="image/png"/>'
            '<Default Extension="xml" ContentType="application/xml"/></Types>'
        ),
        "_rels/.rels": (
            f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" Type="{_RELATION}/officeDocument" '
            'Target="word/document.xml"/></Relationships>'
        ),
        "word/_rels/document.xml.rels": (
            f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId9" Type="{_RELATION}/image" {target}/>'
            "</Relationships>"
        ),
        "word/styles.xml": (
            f'<w:styles xmlns:w="{_WORD}"><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
            "</w:styles>"
        ),
        "word/document.xml": (
            f'<?xml version="1.0"?>{prologue}<w:document xmlns:w="{_WORD}" xmlns:r="{_RELATION}"><w:body>{body}</w:body></w:document>'
        ),
        "word/media/one.png": picture or b"x",
        **(more or {}),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, content in files.items():
            writer.writestr(name, content)
    return packed.getvalue()
