"""The page on failures: its commands run in the order in which they stand, and give what it shows."""

from __future__ import annotations

import re


def _without_seconds(line: str) -> str:
    """A row of the table without the CPU seconds that it took."""
    return re.sub(r"(%\s+)\d+\.\d\d(\s+)(?=\d{4}-)", r"\1x\2", line)
