"""Text and JSON of views, kept in tests/golden/views; WRITE_VIEWS=FOLDER writes those of now to FOLDER."""

from __future__ import annotations

import json
import os
from pathlib import Path

import places
from treadle.render.rows import View, lines, values


def check(name: str, *views: View) -> None:
    """Compare the text and the JSON of each view with those that are stored."""
    texts = []
    for view in views:
        rows = list(view)
        found = json.dumps(values(rows), sort_keys=True, default=str)
        texts.append("\n".join([*lines(rows), found]) + "\n")
    text = "\n".join(texts)
    if folder := os.environ.get("WRITE_VIEWS"):
        Path(folder, f"{name}.txt").write_text(text, encoding="utf-8")
    else:
        assert text == (places.GOLDEN / "views" / f"{name}.txt").read_text(encoding="utf-8")
