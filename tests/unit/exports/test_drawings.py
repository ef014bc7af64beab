"""A drawing counts as harmless only if it can do nothing but draw."""

from __future__ import annotations

import pytest

from mcp_server.exports.site.drawings import LARGEST, only_draws

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'


@pytest.mark.parametrize(
    "inside",
    [
        "<circle r='4' fill='url(#own)'/>",
        "<style>circle { fill: red }</style>",
        "<use href='#own'/><use xlink:href='#own'/>",
        "<image href='data:image/png;base64,AAAA'/>",
        "<text>A page on javascript and scripts</text>",
    ],
)
def test_a_drawing_that_only_draws(inside: str) -> None:
    assert only_draws(f"{HEAD}{inside}</svg>".encode())


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        "<s:script xmlns:s='http://www.w3.org/2000/svg'>alert(1)</s:script>",
        "<circle onclick='alert(1)'/>",
        "<a href='javascript:alert(1)'><circle/></a>",
        "<a xlink:href=' JaVaScRiPt:alert(1)'><circle/></a>",
        "<use href='https://evil.example/x.svg#a'/>",
        "<image href='https://evil.example/x.png'/>",
        "<image href='data:image/svg+xml,x'/>",
        "<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'>x</p></foreignObject>",
        "<style>@import 'https://evil.example/x.css';</style>",
        "<style>circle { fill: url(https://evil.example/x) }</style>",
        "<circle style='fill: url(//evil.example/x)'/>",
        "<set attributeName='href' to='javascript:alert(1)'/>",
        "<g>" * 600 + "</g>" * 600,
        "<unclosed>",
    ],
)
def test_a_drawing_that_could_do_more(inside: str) -> None:
    assert not only_draws(f"{HEAD}{inside}</svg>".encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<svg",
        b'<?xml-stylesheet href="https://evil.example/x.css"?><svg/>',
        b'<!DOCTYPE svg [<!ENTITY a "x">]><svg>&a;</svg>',
        b"<svg/>" + b" " * LARGEST,
    ],
)
def test_what_is_no_plain_drawing(raw: bytes) -> None:
    assert not only_draws(raw)
