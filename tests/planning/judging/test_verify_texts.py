"""``treadle verify`` of texts: told by their content, executed, every violation listed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import places
from treadle.cli.main import main
from treadle.errors import FormatError
from treadle.inputs.runtime_files import read_runtime_file, verify_runtime_file

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


@pytest.mark.parametrize(
    ("content", "options", "status", "word"),
    [
        (b"<algo", [], 2, "not well-formed"),
        (b"<algo>\xff</algo>", [], 2, "1:7: byte 0xff is not valid UTF-8"),
        (b'{"gpus": ' * 100_000, [], 2, "nested too deeply"),
        (b'{"nodes": []}', [], 2, "plan"),
        (b"", [], 2, "plan"),
        (b"<cpu/>", ["--topology", "ring(3)"], 2, "names no fabric"),
    ],
)
def test_what_is_no_text_or_no_sound_one(
    content: bytes,
    options: list[str],
    status: int,
    word: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "text.xml"
    path.write_bytes(content)
    assert main(["verify", str(path), *options]) == status
    error = capsys.readouterr().err
    assert word in error
    assert error.count("\n") == 1


def test_options_of_texts_are_refused_for_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(GOLDEN / "ring_version1.plan"), "--root", "1"]) == 2
    assert "are for runtime files" in capsys.readouterr().err


def test_a_text_of_msccl_tools_is_verified(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # ir.py of microsoft/msccl-tools writes neither sizes nor outofplace
    text = (GOLDEN / "allreduce_chain3.xml").read_text(encoding="utf-8")
    bare = re.sub(r' (minBytes|maxBytes|outofplace)="[0-9]+"', "", text)
    path = tmp_path / "bare.xml"
    path.write_text(bare, encoding="utf-8")
    assert main(["verify", str(path), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["format"], values["verified"]) == ("msccl-xml (legacy)", True)
    assert values["notes"] == [
        "minBytes 0, maxBytes 134217728: defaults of legacy, absent in the file",
        "not supported by azure, rccl: line 1: <algo> lacks the attribute minBytes",
    ]
    assert main(["verify", str(path)]) == 0
    assert f"note         {values['notes'][1]}" in capsys.readouterr().out
    assert main(["verify", str(path), "--profile", "azure"]) == 2
    assert "lacks the attribute minBytes" in capsys.readouterr().err
    assert verify_runtime_file(text).notes == ()
    # 65 steps are too many for two of the runtimes
    step = '<step s="{}" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" '
    step += 'depid="-1" deps="-1" hasdep="0"/>'
    block = f'<tb id="9" send="-1" recv="-1" chan="0">{"".join(map(step.format, range(65)))}</tb></gpu>'
    number = text.split("</gpu>")[0].count("<tb ")
    long = text.replace("</gpu>", block.replace('id="9"', f'id="{number}"'), 1)
    long = re.sub('maxBytes="[0-9]+"', f'maxBytes="{2**30}"', long)
    assert verify_runtime_file(long).notes == (
        f"not supported by azure, rccl: rank 0 tb {number}: 65 steps, the limit is 64",
    )


def test_the_profile_is_the_first_whose_limits_hold() -> None:
    text = (GOLDEN / "allreduce_chain3.xml").read_text(encoding="utf-8")
    assert verify_runtime_file(text, profile="legacy").format == "msccl-xml (legacy)"
    spelt = text.replace('coll="allreduce"', 'coll="reduce_scatter"')
    found = verify_runtime_file(spelt)
    assert found.format == "msccl-xml (legacy)"
    assert found.violations
    with pytest.raises(FormatError, match="neither a plan nor a runtime file"):
        verify_runtime_file("hello")
    with pytest.raises(FormatError, match="coll="):
        verify_runtime_file(text.replace('coll="allreduce"', 'coll="gossip"'))
    assert read_runtime_file(GOLDEN / "ring_version1.plan") is None
    assert read_runtime_file(GOLDEN) is None


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the folder of public MSCCL samples is absent")
@pytest.mark.parametrize("name", ["msccl_rccl_alltoall_8n_ll.xml", "msccl_teccl_amd_32.xml"])
def test_schedules_of_others(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(SAMPLES / name), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["format"].startswith("msccl-xml")
    assert values["verified"]
