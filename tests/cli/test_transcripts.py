"""All that some three hundred commands print and write, word by word; `make transcripts` writes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.transcripts import replayed

import places

TRANSCRIPTS = sorted((places.GOLDEN / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_commands_print_what_they_printed(path: Path) -> None:
    """A difference that is meant is written anew and read as a diff."""
    kept = path.read_text(encoding="utf-8")
    assert replayed(kept) == kept
