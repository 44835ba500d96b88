"""The page on captured models: its commands run on its module, and print what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "how-to" / "capture.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def needs_torch() -> None:
    pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")
