"""Commands that became options of others: the former name does what the present one does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    assert main(["solve", "ring:4", "allgather", "-q", "-o", str(folder / "ring")]) == 0
    assert main(["solve", "ring:4", "allgather", "--size", "1K,1M", "-q", "-o", str(folder / "set")]) == 0
    return folder


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("harden ring --failures nodes --trim", "repair ring --every-failure --failures nodes --trim"),
        ("retune --cost-model reference set", "solve --retune set --cost-model reference"),
        (
            "retune set --cost-model reference --size 1K",
            "solve --retune set --cost-model reference --size 1K",
        ),
        ("routes ring:4 --layers 2 -o x.json", "solve ring:4 alltoall --routes --layers 2 -o x.json"),
        ("draw ring -o x.svg --show load", "report ring -o x.svg --show load"),
        ("draw ring:4 allgather -o x.png", "report ring:4 allgather -o x.png"),
    ],
)
def test_both_names_do_the_same(
    former: str,
    present: str,
    plans: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(plans)
    found = []
    for line in (former, present):
        assert main([*line.split(), "--json"]) == 0
        values: dict[str, Any] = json.loads(capsys.readouterr().out)
        values.pop("seconds", None)
        for failure in values.get("failures", ()):
            failure.pop("seconds", None)
        found.append(values)
    assert found[0] == found[1]
    assert found[0]["schema"].startswith(former.split()[0])
