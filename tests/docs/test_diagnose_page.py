"""The page on diagnoses gives what it shows, and the table of suspects is the catalogue."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from treadle.cli.main import main


def test_the_example_gives_what_the_page_shows(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (repository / "docs" / "how-to" / "diagnose.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (log, shown), (command,) = ([text for kind, text in blocks if kind == word] for word in ("text", ""))
    monkeypatch.chdir(tmp_path)
    Path("nccl.log").write_text(log, encoding="utf-8")
    assert main(shlex.split(command)[1:]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (shown, "")
