"""``treadle verify`` of texts: told by their content, executed, every violation listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import places
from treadle.cli.main import main

GOLDEN = places.GOLDEN
SAMPLES = places.FOREIGN_SAMPLES
TEXTS = {
    "allreduce_chain3.xml": ("msccl-xml (azure)", 3),
    "allreduce_ring3.cpu.xml": ("cpu-xml", 3),
    "allreduce_star3.mscclpp.json": ("mscclpp-json", 3),
    "ring_dgx_a100x2.nccl.box1.xml": ("nccl-graph", 8),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_known_by_their_content(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.plan"
    path.write_bytes((GOLDEN / name).read_bytes())
    assert main(["verify", str(path), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["format"], values["ranks"]) == TEXTS[name]
    assert values.get("verified") is (None if values["judged"] == "parsed" else True)
    assert values["violations"] == []
    assert main(["verify", str(path)]) == 0
    told = capsys.readouterr().out
    assert "verified     yes" in told
    assert ("as far as the file alone shows" in told) == (
        values["judged"] == "parsed"
    )  # nothing was executed


BROKEN = {
    "allreduce_chain3.xml": ('type="rrc"', 'type="r"', "contributions missing"),
    "allreduce_ring3.cpu.xml": ("<sync/>", "", "transfer"),
    "allreduce_star3.mscclpp.json": ('"name": "signal"', '"name": "rlxsignal"', "may have left"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_violations_are_listed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, word = BROKEN[name]
    text = (GOLDEN / name).read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "broken"
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert main(["verify", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "verified     NO: " in shown
    assert word in shown
    assert main(["verify", str(path), "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["verified"] is False
    assert len(values["violations"]) == values["n_violations"] > 0


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the folder of public MSCCL samples is absent")
@pytest.mark.parametrize("name", ["msccl_rccl_alltoall_8n_ll.xml", "msccl_teccl_amd_32.xml"])
def test_schedules_of_others(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(SAMPLES / name), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["format"].startswith("msccl-xml")
    assert values["verified"]
