"""Files of other tools wherever a fabric is meant: the options of an import, its warnings, its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samples.box_files import nccl_xml
from treadle.cli.main import main
from treadle.options.verbs import VERBS, table
from treadle.topologies import dgx_a100, load_topology
from treadle.topologies.readers.imported import ImportOptions

OPTIONS = (
    {"--without"}
    | {f"--{name.replace('_', '-')}" for name in ImportOptions.__dataclass_fields__}
    | {"--format"}
)


@pytest.fixture
def box(tmp_path: Path) -> str:
    """Four A100, NVSwitches, a NIC each, and one that is far."""
    path = tmp_path / "four.xml"
    path.write_text(nccl_xml(far_nics=1))
    return str(path)


def test_every_command_with_a_topology_takes_all_options_of_an_import() -> None:
    taking = {
        verb: {row.flag for row in rows.values()}
        for verb in VERBS
        if "topology" in (rows := table(verb).rows) or any("TOPOLOGY" in row.metavar for row in rows.values())
    }
    del taking["design"], taking["calibrate"]  # whose fabrics are expressions
    wanted = {
        "solve",
        "bound",
        "compare",
        "pareto",
        "report",
        "verify",
        "simulate",
        "run",
        "diagnose",
        "testbed",
        "topology show",
        "topology export",
    }
    assert wanted <= set(taking)
    assert not {name: missing for name, options in taking.items() if (missing := OPTIONS - options)}


def test_only_import_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "import", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in OPTIONS)
    assert main(["bound", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help-all" in shown
    assert "--oversubscription" not in shown
    assert "--without" in shown


def test_warnings_are_lines_on_stderr(box: str, capsys: pytest.CaptureFixture[str]) -> None:
    two = ["--boxes", "2", "--network", "rail"]
    assert main(["bound", box, "allgather", *two, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["optimal_algbw_exact"] == "200000000000/1"
    assert (
        err
        == "treadle: warning: eth0: shares no PCIe switch with a GPU and is left out; --nics all takes it\n"
    )
    assert main(["bound", box, "allgather", *two, "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_an_import_shows_and_writes_what_it_found(
    box: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "fabric.json"
    command = ["topology", "import", box, "--boxes", "2", "--network", "rail", "-o", str(target)]
    assert main(command) == 0
    text, err = capsys.readouterr()
    assert err == ""
    for said in (
        "read as nccl-xml",
        "4 x sm 80",
        "NVLink: 4 x GPU to switch 12 of 25 GB/s",
        "2 NVSwitches, as one",
        "by the file's ranks: gpu0 = 0000:40:00.0",
        "4 x 25 GB/s, 1.25 GB/s",
        "4: nic0 = mlx5_0",
        "gpu0+gpu1: mlx5_0, mlx5_1; gpu2+gpu3: mlx5_2, mlx5_3",
        "warning eth0: shares no PCIe switch",
    ):
        assert said in " ".join(text.split())
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(line in " ".join(text.split()) for line in found["recognised"].values())
    assert [one["place"] for one in found["warnings"]] == ["eth0"]
    assert (found["format"], found["ranks"], found["output"]) == ("nccl-xml", 8, str(target))
    assert load_topology(target).node_names[:4] == tuple(f"box0.gpu{i}" for i in range(4))


def test_a_plan_is_verified_on_the_file_that_it_was_made_from(
    box: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "four.plan")
    two = ["--boxes", "2", "--network", "rails:2"]
    assert main(["solve", box, "allgather", *two, "-o", plan, "-q"]) == 0
    assert main(["verify", plan, "--topology", box, *two]) == 0
    out = capsys.readouterr().out
    assert "against      four, 2 boxes, rails:2, " in out
    assert "verified     yes" in out
    assert main(["verify", plan, "--topology", box, *two, "--links", "library"]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bound", "BOX", "allgather", "--boxes", "2"], "say by --network what joins 2: one-switch, rail"),
        (["bound", "BOX", "allgather", "--network", "rail"], "say by --boxes how many there are"),
        (
            ["bound", "BOX", "allgather", "--boxes", "2", "--network", "star"],
            "--network 'star': expected one-sw",
        ),
        (
            ["bound", "BOX", "allgather", "--nic-bandwidth", "50"],
            "--nic-bandwidth: bandwidth '50' has no unit",
        ),
        (["bound", "BOX", "allgather", "--gpu", "z9"], "--gpu 'z9' is not known; expected one of p100, v100"),
        (
            ["bound", "BOX", "allgather", "--gpu", "h100"],
            "--gpu h100: GPU 0000:40:00.0 is of another kind, sm 80",
        ),
        (
            ["bound", "BOX", "allgather", "--nics", "mlx5_9"],
            "--nics: no NIC is called 'mlx5_9'; there are mlx5_0",
        ),
        (["bound", "BOX", "allgather", "--chunk-size", "1MB"], "--chunk-size means nothing to nccl-xml"),
        (
            ["bound", "ring:4", "allgather", "--boxes", "2"],
            "--boxes is for files; 'ring:4' is of the catalogue",
        ),
        (
            ["testbed", "--plan", "none.plan", "--gpu", "h100"],
            "--gpu is about a file with a fabric, and no fabric is",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    box: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([box if word == "BOX" else word for word in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_a_box_of_eight_is_the_catalogues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = tmp_path / "eight.xml", tmp_path / "out.json"
    path.write_text(nccl_xml(gpus=8))
    assert main(["topology", "export", str(path), "-o", str(target)]) == 0
    assert load_topology(target) == dgx_a100(1)


@pytest.mark.parametrize(
    ("words", "optimum"),
    [
        (["--without", "box0.gpu0--ib0"], "320000000000/1"),
        (["--without", "box0.gpu0--ib0,box1.gpu3"], "2250000000000/7"),
        (["--without", "box0.gpu0--ib0", "--without", "box1.gpu?--ib0"], None),
    ],
)
def test_without_takes_links_and_nodes_out(
    words: list[str], optimum: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["bound", "dgx_a100_flat:2", "allgather", *words, "--json"])
    out, err = capsys.readouterr()
    if optimum is None:
        assert status == 3
        assert "box1.gpu0" in err
        return
    assert status == 0
    values = json.loads(out)
    assert values["optimal_algbw_exact"] == optimum
    assert main(["bound", values["topology"], "allgather", "--json"]) == 0  # its name is an expression
    assert json.loads(capsys.readouterr().out)["optimal_algbw_exact"] == optimum


def test_without_holds_for_every_command_with_a_fabric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, wanted = str(tmp_path / "ring.plan"), 'with_failed_links(ring(4), "n3--n0")'
    failed = ["--without", "n3--n0"]
    for words in (
        ["solve", "ring:4", "allgather", "-o", plan],
        ["bound", "ring:4", "allgather"],
        ["compare", "ring:4", "allgather", "--algorithms", "ring,forestcoll"],
        ["routes", "ring:4"],
        ["simulate", "ring:4", "allgather", "--size", "1K"],
        ["run", "ring:4", "allgather", "--size", "1K", "--iterations", "1"],
        ["verify", plan, "--topology", "ring:4"],
        ["topology", "show", "ring:4"],
    ):
        assert main([*words, *failed, "--json"]) == 0, words
        assert json.loads(capsys.readouterr().out)["topology"] == wanted, words
    assert main(["topology", "export", "ring:4", *failed]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == wanted
    shapers = []
    for more in ([], failed):
        assert main(["testbed", "ring:4", *more, "--dry-run", "--json"]) == 0
        shapers.append(capsys.readouterr().out.count(" tbf "))
    assert shapers == [8, 6]  # one at each end of a cable


def test_without_holds_for_files(box: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "left.json"
    words = ["topology", "import", box, "--without", "*gpu1", "-o", str(target), "--json", "-q"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 3
    assert len(load_topology(target).compute_nodes) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bound", "ring:4", "allgather", "--without", "n0--n2"], "there is no link 'n0--n2'"),
        (["bound", "ring:4", "allgather", "--without", "m0"], "no node is called 'm0'"),
        (["run", "{}", "--without", "n0--n1"], "is a plan, which has its own"),
        (["simulate", "{}", "--without", "n0--n1"], "treadle repair"),
        (["verify", "{}", "--without", "n0--n1"], "--without is about a fabric, and no fabric is named"),
    ],
)
def test_what_is_not_there_cannot_fail(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring:4", "allgather", "-o", plan, "-q"]) == 0
    assert main([word.replace("{}", plan) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
