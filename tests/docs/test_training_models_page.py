"""The page on models and devices of training: its tables are those of the code, and its blocks run."""

from __future__ import annotations

import re
from pathlib import Path


def page(repository: Path) -> str:
    return (repository / "docs" / "reference" / "training-models.md").read_text(encoding="utf-8")


def block(text: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return str(found)
