"""reStructuredText: headings, tables and words that mean themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def heading(text: str, rule: str = "=") -> str:
    """A title with its underline."""
    return f"{text}\n{rule * len(text)}\n"


def plain(text: str) -> str:
    """Words without markup: what stands between backticks is code, the rest means itself."""
    parts = re.split(r"(`+[^`]*`+)", " ".join(text.split()))
    return "".join(
        f"``{part.strip('`')}``" if place % 2 else re.sub(r"([\\*_|])", r"\\\1", part)
        for place, part in enumerate(parts)
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> str:
    """A list-table; cells are markup already."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [head, *rows]:
        for place, cell in enumerate(row):
            lines.append(f"   {'* -' if place == 0 else '  -'} {cell}".rstrip())
    return "\n".join([*lines, ""])
