"""Bad input: one line on stderr, the right exit status, no file half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import main


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "good.plan"
    assert main(["solve", "ring:4", "allgather", "-o", str(path), "-q"]) == 0
    return path


def test_flipped_bits_are_refused_or_harmless(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = plan.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        plan.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        status = main(["verify", str(plan)])
        err = capsys.readouterr().err
        assert status in (0, 1, 2)
        assert "Traceback" not in err
        assert err.count("\n") == (status == 2)
