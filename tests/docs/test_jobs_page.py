"""The page on jobs: its file is read, its commands run, and what it shows is what they print."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(repository: Path, language: str) -> list[str]:
    page = (repository / "docs" / "how-to" / "jobs.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
