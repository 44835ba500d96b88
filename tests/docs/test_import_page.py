"""The page on files of other tools: its commands run, their output and its table are as it says."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(repository: Path) -> list[tuple[str, str]]:
    """Languages and texts of the page's blocks, in order."""
    text = (repository / "docs" / "how-to" / "import.md").read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
