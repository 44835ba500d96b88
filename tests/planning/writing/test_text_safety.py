"""Texts that would do harm: roots nobody compares, folders parsed whole, options that nothing heeds."""

from __future__ import annotations

import itertools
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samples.format_samples import NAMES, needed
from samples.program_cases import fabric
from treadle import planning
from treadle.cli.main import main
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.format import all_formats, find_format
from treadle.formats.mscclpp.writer import emit_mscclpp_json
from treadle.planning import Profile
from treadle.program.program import Operation, OperationKind, program_from_operations
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan

ROOTLESS = tuple(record.name for record in all_formats() if "accept_any_root" in record.options)


# --- options

OPTIONS: dict[str, list[Any]] = {
    "profile": ["legacy"],
    "in_place": [True],
    "channels": [2],
    "instances": [2],
    "name": ["other"],
    "pipeline_bytes": [4096],
    "size_bytes": [2**21],
    "consolidate": [True],
    "chunks": [64, "plan"],
    "rank": [1],
}
SAMPLES = (
    ("dgx_a100(1)", "allreduce", {"algorithm": "ring"}),
    ("dgx_a100(1)", "reduce-scatter", {"algorithm": "ring"}),
    ("torus(3,3)", "allgather", {"algorithm": "bfb"}),
    ("hypercube(3)", "allgather", {"trees": 3}),
    ("dgx_a100(3, 4)", "allgather", {"form": "factored"}),
    ("hypercube(2)", "broadcast", {"root": 1}),
)


@pytest.fixture(scope="module")
def samples() -> list[Plan]:
    return [planning.solve(fabric, collective, **options).plan for fabric, collective, options in SAMPLES]


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_makes_a_difference_or_is_refused(option: str, target: str, samples: list[Plan]) -> None:
    """The text of some plan differs, or every plan is refused by the option's name."""
    refused = differs = 0
    for plan, value in itertools.product(samples, OPTIONS[option]):
        given = needed(find_format(target), plan)
        try:
            other = planning.lower(plan, to=target, **(given | {option: value})).files
        except ScheduleError as error:
            name = "--" + option.removesuffix("_bytes").replace("_", "-")
            refused += str(error).startswith(f"{name} is for ")
            continue
        except InfeasibleError:
            continue
        try:
            differs += planning.lower(plan, to=target, **given).files != other
        except (ScheduleError, InfeasibleError):
            differs += 1  # only with the option
    assert bool(refused) != bool(differs)
    assert refused in (0, len(samples) * len(OPTIONS[option]))


def test_channels_of_an_nccl_graph_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring(4)", "allgather", "--algorithm", "ring", "-o", plan, "-q"]) == 0
    for words, said in (
        (
            ["--channels", "4"],
            "--channels is for chakra, cpu-xml, msccl-xml and nccl-tuner; nccl-graph has nothing",
        ),
        (["--profile", "rccl"], "--profile is for msccl-xml; nccl-graph has nothing"),
        (["--in-place"], "--in-place is for chakra, cpu-xml, msccl-xml and mscclpp-json"),
        (["--chunks", "8"], "--chunks is for msccl-xml and mscclpp-json"),
    ):
        assert main(["lower", plan, "--to", "nccl-graph", *words]) == 2
        assert said in capsys.readouterr().err


def test_a_pipeline_that_nothing_flows_through_is_refused() -> None:
    """Blocks move equal amounts where any can; where none does, the option would be silently ignored."""
    plan = planning.solve("hypercube(3)", "allgather", trees=3).plan
    result = planning.lower(plan, to="mscclpp-json", pipeline_bytes=4096)
    assert result.n_chunks != result.plan_chunks
    assert result.faults == ()
    for gpu in json.loads(result.text)["gpus"]:
        assert all(any(op["name"] == "pipeline" for op in block["ops"]) for block in gpu["threadblocks"])
    topology = fabric(2, star=False)
    send, back = (Operation(OperationKind.SEND, 0, count, peer=1) for count in (2, 1))
    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [[send, back], [replace(one, kind=OperationKind.RECEIVE, peer=0) for one in (send, back)]],
        n_chunks=2,
        shard_offset=[0, 2, 2],
        root=0,
        in_place=True,
    )
    assert emit_mscclpp_json(program, topology)
    with pytest.raises(ScheduleError, match="--pipeline would change nothing"):
        emit_mscclpp_json(program, topology, pipeline_bytes=4096)


# --- roots


@pytest.mark.parametrize("target", ROOTLESS)
@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_roots_that_no_runtime_compares(collective: str, target: str) -> None:
    plan = planning.solve("hypercube(2)", collective, root=3).plan
    with pytest.raises(
        ScheduleError, match=rf"the file of root 3 .* {collective} of any root .*--accept-any-root"
    ):
        planning.lower(plan, to=target)
    result = planning.lower(plan, to=target, accept_any_root=True)
    assert result.faults == ()
    assert any("another root than 3" in caution for caution in result.cautions)


def test_formats_that_name_the_root_ask_nothing() -> None:
    plan = planning.solve("hypercube(2)", "broadcast", root=3).plan
    for target in ("cpu-xml", "chakra"):
        options = needed(find_format(target), plan)
        assert planning.lower(plan, to=target, **options).faults == ()
        with pytest.raises(ScheduleError, match=r"--accept-any-root is for msccl-xml and mscclpp-json"):
            planning.lower(plan, to=target, accept_any_root=True, **options)
    plan = planning.solve("hypercube(2)", "allgather").plan
    with pytest.raises(ScheduleError, match="allgather has no root"):
        planning.lower(plan, accept_any_root=True)


def test_a_root_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, out = tmp_path / "b.plan", tmp_path / "b.xml"
    save_plan(plan, planning.solve("hypercube(2)", "broadcast", root=2).plan)
    assert main(["lower", str(plan), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "root 2" in said
    assert not out.exists()
    assert main(["lower", str(plan), "-o", str(out), "--accept-any-root"]) == 0
    assert "warning        the runtime compares no root" in capsys.readouterr().out


# --- folders


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    path = tmp_path / "ring.plan"
    save_plan(path, planning.solve("ring(4)", "allgather", algorithm="ring").plan)
    return path


def test_texts_go_to_folders_of_their_own(
    ring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "texts"
    assert main(["lower", str(ring), "-o", f"{folder}/"]) == 0
    assert f"MSCCL_ALGO_DIR={folder}\n" in capsys.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["ring.xml"]
    # a second text, and the same again, beside it
    assert main(["lower", str(ring), "-o", f"{folder}/", "-q"]) == 0
    (folder / "public.xml").write_text('<!-- theirs -->\n<algo name="x">\n</algo>\n')
    assert main(["lower", str(ring), "-o", str(folder), "-q"]) == 0
    assert {path.name for path in folder.iterdir()} == {"ring.xml", "public.xml"}


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04", b"", b"<graphs version='1'>", b"<algorithm>", b"\xff\xfe"]
)
def test_a_folder_that_msccl_cannot_parse_is_refused(
    content: bytes, ring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "other").write_bytes(content)
    for profile in ("azure", "rccl"):
        assert main(["lower", str(ring), "-o", str(folder), "--profile", profile]) == 2
        assert "holds 'other', which is not an MSCCL file, and the runtime" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["other"]
    # the legacy runtime takes files by name, and a plan is no text of MSCCL's
    assert main(["lower", str(ring), "-o", str(folder), "--profile", "legacy", "-q"]) == 0
    assert main(["lower", str(ring), "-o", str(folder), "--to", "mscclpp-json", "-q"]) == 0
    assert {path.name for path in folder.iterdir()} == {"other", "ring.xml", "ring.json"}


def test_beside_its_plan_a_text_is_copied_to_a_folder(
    ring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe is run as it is printed: the folder that it names holds the text and nothing else."""
    out = tmp_path / "ring of 4.xml"
    assert main(["lower", str(ring), "-o", str(out), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    subprocess.run(["/bin/sh", "-ec", "\n".join(values["prepare"])], check=True)
    folder = Path(values["environment"]["MSCCL_ALGO_DIR"])
    assert folder != tmp_path
    assert [path.name for path in folder.iterdir()] == [out.name]
    assert (folder / out.name).read_bytes() == out.read_bytes()
    assert main(["lower", str(ring), "-o", str(tmp_path)]) == 2
    assert "holds 'ring.plan'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--to", "mscclpp-json"], ["ring.json"]),
        (["--to", "cpu-xml"], ["ring.xml"]),
        (["--to", "nccl-graph"], ["ring.xml"]),
        (["--to", "chakra", "--size", "1MB"], [f"ring.{rank}.et" for rank in range(4)]),
    ],
)
def test_every_format_may_go_to_a_folder(
    words: list[str], names: list[str], ring: Path, tmp_path: Path
) -> None:
    assert main(["lower", str(ring), *words, "-o", f"{tmp_path}/texts/", "-q"]) == 0
    assert sorted(path.name for path in (tmp_path / "texts").iterdir()) == names


def test_a_folder_that_cannot_be_made(ring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lower", str(ring), "-o", f"{ring}/texts/"]) == 2
    said = capsys.readouterr().err
    assert str(ring) in said
    assert said.count("\n") == 1


# --- what is printed


def test_a_part_of_a_trace_is_read_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "large.plan")
    assert main(["solve", "dgx_a100:3,4", "allgather", "--form", "factored", "-o", plan, "-q"]) == 0
    assert main(["lower", plan, "--to", "chakra", "--size", "1MB", "--rank", "1", "-o", f"{plan}.t"]) == 0
    said = capsys.readouterr().out
    assert "parsed back, rank 1 alone; nothing executed" in said
    assert main(["lower", plan, "--to", "cpu-xml", "--rank", "1", "-o", f"{plan}.xml"]) == 0
    assert "executed by Treadle's own interpreter, rank 1 alone" in capsys.readouterr().out


def test_sums_are_all_that_mscclpp_reduces_to() -> None:
    for collective, sums in (("allgather", False), ("reduce-scatter", True), ("allreduce", True)):
        plan = planning.solve("hypercube(2)", collective).plan
        for target in ROOTLESS:
            cautions = planning.lower(plan, to=target).cautions
            assert bool(cautions) == (sums and target == "mscclpp-json")


def test_plans_of_mscclpp_differ_in_name() -> None:
    """Contexts are kept by name: another plan of that name on the same buffers would be run in its place."""
    seen = {}
    for collective in ("allgather", "reduce-scatter", "allreduce"):
        for in_place in (False, True):
            plan = planning.solve("hypercube(2)", collective).plan
            text = planning.lower(plan, to="mscclpp-json", in_place=in_place).text
            assert text == planning.lower(plan, to="mscclpp-json", in_place=in_place).text
            seen[json.loads(text)["name"]] = text
    assert len(seen) == 6
    assert json.loads(planning.lower(plan, to="mscclpp-json", name="mine").text)["name"] == "mine"


@pytest.mark.parametrize("profile", Profile)
def test_logs_of_msccl_are_those_of_its_sources(profile: Profile) -> None:
    """src/misc/msccl/msccl_lifecycle.cc of each, and src/init.cc of microsoft/msccl."""
    plan = planning.solve("ring(3)", "allgather").plan
    loading = planning.lower(plan, profile=profile, path="a/b.xml", in_own_folder=True).loading
    line = {
        Profile.AZURE: "Using MSCCL Algo files from a",
        Profile.RCCL: "Using MSCCL files from a",
        Profile.LEGACY: "Connected 1 MSCCL algorithms",
    }[profile]
    assert line in loading.check
