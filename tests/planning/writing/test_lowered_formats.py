"""Plans written in every format: executed by an interpreter, with the way to load them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from samples.format_samples import NAMES, taken, words
from treadle import planning
from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.mscclpp.switch_channels import check_allocation
from treadle.formats.request import Given
from treadle.planning import Profile, TargetFormat, find_format
from treadle.program.any_schedule import lower
from treadle.schedules.plan_files.archive import save_plan
from treadle.simulation.point_to_point import point_to_point_gap


@pytest.mark.parametrize("fabric", ["dgx_h100(2, nvls=True)", "dgx_a100(2)", "mi250(1)"])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_mscclpp_plans_of_platforms(fabric: str, collective: str) -> None:
    plan = planning.solve(fabric, collective).plan
    for in_place in (False, True):
        result = planning.lower(plan, to="mscclpp-json", in_place=in_place)
        assert result.faults == ()  # of what the text does when it is read and interpreted
        kinds = {
            channel["channel_type"] for gpu in json.loads(result.text)["gpus"] for channel in gpu["channels"]
        }
        assert ("port" in kinds) == ("mi250" not in fabric)  # boxes reach each other through cards
        # links into GPUs are full here, and MSCCL++ has no sum by a switch without its copies
        assert "switch" not in kinds


@pytest.mark.parametrize(("instances", "blocks"), [(None, 4), (2, 2)])
def test_every_rank_asks_for_its_part_in_several_blocks(instances: int | None, blocks: int) -> None:
    """One box with NVLink SHARP: one operation of one rank would carry all over that rank's link, twice."""
    plan = planning.solve("dgx_h100(1, nvls=True)", "allreduce").plan
    result = planning.lower(plan, to="mscclpp-json", instances=instances)
    assert result.faults == ()
    parts = []
    for gpu in json.loads(result.text)["gpus"]:
        asked = [
            operation["dst_buff"]
            for block in gpu["threadblocks"]
            for operation in block["ops"]
            if operation["name"] == "glres"
        ]
        assert len(asked) == blocks
        assert all(sum(one["name"] == "glres" for one in block["ops"]) <= 1 for block in gpu["threadblocks"])
        parts += [(part["index"], part["size"]) for (part,) in asked]
        groups = [group for channel in gpu["channels"] for group in channel.get("rank_groups", ())]
        assert groups == [{"size": 8, "ranks": list(range(8))}] * 2
    assert sorted(parts) == [(chunk, 1) for chunk in range(8 * blocks)]


def test_a_rank_that_asks_for_all_is_refused() -> None:
    plan = planning.solve("dgx_h100(1, nvls=True)", "allreduce").plan
    program = lower(plan.topology, plan.collective, plan.entries[-1].schedule)
    equal = frozenset((chunk, chunk) for chunk in range(8))
    check_allocation(program, Given(equal, equal))
    one = frozenset((3, chunk) for chunk in range(8))
    with pytest.raises(ScheduleError, match=r"rank 3 asks its switch for 100% .* 50% .* 89% pass"):
        check_allocation(program, Given(one, one))


def test_texts_say_what_they_do_not_leave_to_switches() -> None:
    """Two boxes: sums cross the network before they are copied, so switches cannot do both at once."""
    whole = planning.lower(planning.solve("dgx_h100(1, nvls=True)", "allreduce").plan, to="mscclpp-json")
    assert whole.shortfall is None
    plan = planning.solve("dgx_h100(2, nvls=True)", "allreduce").plan
    result = planning.lower(plan, to="mscclpp-json")
    assert result.shortfall is not None
    assert result.shortfall.algbw == Fraction(1800, 7) * 10**9
    # with stores in switches and sums in ranks: 7/8 of the sums' parts into each asker, and copies for all
    program = lower(plan.topology, plan.collective, plan.entries[-1].schedule)
    stores = frozenset((rank, chunk) for rank in range(16) for chunk in range(program.n_chunks))
    partial = point_to_point_gap(plan.topology, plan.collective, program, Given(stores))
    assert partial is not None
    assert partial.algbw == 450 * 10**9 / (Fraction(7, 8) + 1)
    assert partial.n_sends == result.shortfall.n_sends / 2
    assert point_to_point_gap(plan.topology, plan.collective, program, Given(stores, stores)) is None


def test_multicast_alone_is_lowered_to_stores() -> None:
    plan = planning.solve("dgx_h100(1, nvls=True)", "broadcast", multicast=True).plan
    result = planning.lower(plan, to="mscclpp-json", accept_any_root=True)
    assert result.faults == ()
    assert '"gstore"' in result.text


PROGRAMS = (TargetFormat.MSCCL_XML, TargetFormat.MSCCLPP_JSON, TargetFormat.CPU_XML)
"""Formats that hold whole programs as one text."""


@pytest.mark.parametrize("target", PROGRAMS)
def test_instances_multiply_chunks(target: TargetFormat) -> None:
    plan = planning.solve("ring(4)", "allreduce").plan
    asked = {} if target is TargetFormat.CPU_XML else {"chunks": "plan"}
    one, three = (planning.lower(plan, to=target, instances=i, **asked) for i in (1, 3))
    assert three.faults == ()
    assert three.n_chunks == 3 * one.n_chunks


@pytest.mark.parametrize("name", NAMES)
def test_loading_is_told(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = taken(name)[0][0]
    path, out = str(tmp_path / "ring.plan"), str(tmp_path / "folder" / "ring.text")
    (tmp_path / "folder").mkdir()
    save_plan(tmp_path / "ring.plan", plan)
    command = ["lower", path, "--to", name, "-o", out, *words(find_format(name), plan)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    for word in ("how to load ", "how to check ", "not supported "):
        assert f"\n{word}" in shown
    assert str(tmp_path / "folder") in "".join(shown.split())
    assert main([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert str(tmp_path / "folder") in json.dumps([values["environment"], values["check"], values["code"]])


def test_every_profile_names_its_variables() -> None:
    plan = planning.solve("ring(3)", "allgather").plan
    shown = {
        profile: dict(planning.lower(plan, profile=profile, path="a/b.xml").loading.environment)
        for profile in Profile
    }
    assert shown[Profile.LEGACY]["MSCCL_XML_FILES"] == "a/b.xml"
    assert shown[Profile.AZURE]["MSCCL_ALGO_DIR"] == shown[Profile.RCCL]["MSCCL_ALGO_DIR"] == "a/b.msccl"
    assert planning.lower(plan, path="a/b.xml").loading.prepare == (
        "mkdir -p a/b.msccl",
        "cp a/b.xml a/b.msccl/",
    )
    alone = planning.lower(plan, path="a/b.xml", in_own_folder=True).loading
    assert dict(alone.environment)["MSCCL_ALGO_DIR"] == "a"
    assert alone.prepare == ()
    assert "RCCL_MSCCL_FORCE_ENABLE" in shown[Profile.RCCL]


def test_profiles_leave_their_limits_to_the_text() -> None:
    plan = planning.solve("ring(3)", "reduce-scatter").plan
    for profile in Profile:
        text = planning.lower(plan, profile=profile, instances=2).text
        assert interpret_msccl_xml(text, profile=profile).violations == ()


def test_pipelines_are_for_mscclpp_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, out = str(tmp_path / "ring.plan"), tmp_path / "ring.json"
    assert main(["solve", "dgx_h100(1)", "allgather", "-o", plan, "-q"]) == 0
    assert main(["lower", plan, "--pipeline", "1MB"]) == 2
    assert "--pipeline is for mscclpp-json" in capsys.readouterr().err
    assert main(["lower", plan, "--to", "mscclpp-json", "--pipeline", "64KB", "-o", str(out), "-q"]) == 0
    assert '"unit_size": 65536' in out.read_text()
    assert main(["lower", plan, "--to", "mscclpp-json", "--pipeline", "0B", "-o", str(out)]) == 2
    assert "at least 1 byte" in capsys.readouterr().err
    assert main(["lower", plan, "--to", "mscclpp-json", "--pipeline", "7B", "-o", str(out)]) == 2
    assert "multiple of 16" in capsys.readouterr().err


def test_unknown_formats_are_refused() -> None:
    plan = planning.solve("ring(3)", "allgather").plan
    with pytest.raises(ScheduleError, match="unknown format 'xml'"):
        planning.lower(plan, to="xml")


def test_sizes_are_for_traces_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring(4)", "allgather", "-o", plan, "-q"]) == 0
    assert main(["lower", plan, "--size", "1MB"]) == 2
    assert "--size is for chakra" in capsys.readouterr().err
    assert main(["lower", plan, "--to", "chakra", "--size", "1MB"]) == 2
    assert "name them by -o PREFIX" in capsys.readouterr().err
    assert main(["lower", plan, "--to", "chakra", "-o", str(tmp_path / "t")]) == 2
    assert "give one (--size 64MB)" in capsys.readouterr().err
    several = planning.lower(planning.solve("ring(3)", "allgather").plan, to="chakra", size_bytes=9)
    with pytest.raises(ScheduleError, match="3 files are no single text"):
        assert several.text


def test_texts_without_switches_are_parsed_by_their_judge_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be tens of megabytes."""
    plain = planning.solve("dgx_h100:2", "allgather").plan
    asking = planning.solve("dgx_h100(1, nvls=True)", "allreduce").plan
    parsed: list[str] = []

    def load(text: str) -> object:
        parsed.append(text)
        return json.loads(text)

    monkeypatch.setattr("treadle.formats.mscclpp.switch_channels.json", SimpleNamespace(loads=load))
    assert planning.lower(plain, to="mscclpp-json").faults == ()
    assert parsed == []
    assert planning.lower(asking, to="mscclpp-json").faults == ()
    assert parsed
