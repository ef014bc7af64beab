"""How to install an optional package depends on how the program was installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowledge import extras
from knowledge.extras import install_command


def test_in_a_checkout_the_command_names_it() -> None:
    assert install_command("qdrant") == f"pip install -e '{extras.CHECKOUT}[qdrant]'"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (
            '{"url": "file:///opt/knowledge_forge-1.0-py3-none-any.whl"}',
            "'/opt/knowledge_forge-1.0-py3-none-any.whl[onnx]'",
        ),
        ('{"url": "file:///home/ada/my%20tools/forge", "dir_info": {}}', "'/home/ada/my tools/forge[onnx]'"),
        ('{"url": "https://example.org/forge.whl"}', "'knowledge-forge[onnx]'"),
        (None, "'knowledge-forge[onnx]'"),
        ("[]", "'knowledge-forge[onnx]'"),
        ("{", "'knowledge-forge[onnx]'"),
    ],
)
def test_elsewhere_it_names_the_file_or_folder_that_was_installed(
    origin: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PEP 610 says where pip records it; pip writes nothing for a package from an index."""

    class Installed:
        def read_text(self, name: str) -> Any:
            assert name == "direct_url.json"
            return origin

    monkeypatch.setattr(extras, "CHECKOUT", tmp_path)
    monkeypatch.setattr(
        extras, "distribution", lambda name: Installed() if name == "knowledge-forge" else json.loads("")
    )
    assert install_command("onnx") == f"pip install {expected}"
