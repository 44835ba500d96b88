"""What calibrate asks for, writes and says, beside fits by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.cli.measuring import calibrate
from treadle.errors import FormatError
from treadle.render.rows import row
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.files import load_topology
from treadle.topologies.topology import MAX_BANDWIDTH

PLAN = "--plan: fits a cost model; --steps and --fabric are of the alpha-beta fit without"
OTHER = "--protocols and --held-out need plans; add --plan PLAN,..."
BOTH = "--fabric and --fabric-output go together"


def fitted(bandwidth: int | None, latency_ns: int = 1234) -> Any:
    return SimpleNamespace(latency_ns=latency_ns, bandwidth_bytes_per_s=bandwidth, has_steps=True)


@pytest.mark.parametrize(
    ("bandwidth", "link"),
    [(None, 7), (41, 10), (3, 1), (4, 1), (8, 2), (4 * MAX_BANDWIDTH + 4, MAX_BANDWIDTH)],
)
def test_links_of_a_node_share_its_bandwidth(bandwidth: int | None, link: int, tmp_path: Path) -> None:
    """Of torus(3, 3) a node has four links, 7 bytes/s each where the fit sees none."""
    path = tmp_path / "fabric.json"
    calibrate._write_fabric('torus(3, 3, bandwidth="7B/s")', path, fitted(bandwidth))
    written = load_topology(path)
    assert set(written.bandwidths.tolist()) == {link}
    assert set(written.latencies_ns.tolist()) == {1234}


@pytest.mark.parametrize("expression", ["star(4)", "path(3)", "two_speeds"])
def test_fabrics_whose_links_differ_are_refused(expression: str, tmp_path: Path) -> None:
    """Switches; ends of a path with one link; a ring with a faster link one way round."""
    if expression == "two_speeds":
        links = [
            {"tail": f"n{a}", "head": f"n{(a + step) % 3}", "bandwidth_bytes_per_s": 1 + (step == 1)}
            for a in range(3)
            for step in (1, 2)
        ]
        nodes = [{"name": f"n{a}", "kind": "compute"} for a in range(3)]
        value = {"treadle": "topology", "version": 1, "name": "two speeds", "nodes": nodes, "links": links}
        (tmp_path / "fabric.json").write_text(json.dumps(value))
        expression = str(tmp_path / "fabric.json")
    with pytest.raises(FormatError, match=r"--fabric takes direct links, all equal, as many at each node$"):
        calibrate._write_fabric(expression, tmp_path / "out.json", fitted(5))
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a --plan p --steps 3", PLAN),
        ("a --plan p --fabric ring:4", PLAN),
        ("a --plan p --fabric-output x", PLAN),
        ("a --protocols ll", OTHER),
        ("a --held-out 1", OTHER),
        ("a b", "2 files: expected one, or --plan PLAN,... for each"),
        ("a --fabric ring:4", BOTH),
        ("a --fabric-output x", BOTH),
        ("a b --plan p", "--plan: 1 plans for 2 files; expected one for each"),
        ("a --plan p,q", "--plan: 2 plans for 1 files; expected one for each"),
        ("a b --plan p,q --held-out 2", "--held-out 2: expected less than the 2 files"),
    ],
)
def test_options_that_do_not_go_together(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", *words.split()]) == 2
    assert capsys.readouterr().err == f"treadle: {said}\n"


def test_the_fit_is_asked_as_the_options_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def fit(path: Path, **options: Any) -> Any:
        asked.append((path.name, options))
        return fitted(5)

    monkeypatch.setattr(calibrate, "calibrate", fit)
    monkeypatch.setattr(
        calibrate,
        "calibration_rows",
        lambda _, degree, rates: [row(None, f"{degree}\n{rates(8)}", degree=degree)],
    )
    target = tmp_path / "fit.json"
    assert main(["calibrate", "a.json"]) == 0
    assert capsys.readouterr().out == "1\n8 B/s\n"
    words = "--collective all_reduce --ranks 5 --steps 3 --degree 4 --unit bit/s"
    assert main(["calibrate", "b.json", *words.split(), "-o", str(target)]) == 0
    assert capsys.readouterr().out == "4\n64 bit/s\n"
    assert target.read_text() == '{\n "degree": 4\n}\n'
    assert asked == [
        ("a.json", {"collective": None, "n_ranks": None, "steps": None}),
        ("b.json", {"collective": CollectiveKind.ALLREDUCE, "n_ranks": 5, "steps": 3}),
    ]


def test_cost_models_are_fitted_to_all_but_the_last_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}

    def point(sweep: str) -> Any:
        return SimpleNamespace(
            sweep=sweep, size_bytes=1, measured_s=1.0, predicted_s=1.0, error=0.0, protocol="ll", slices=1,
            share_of_bound=None,
        )  # fmt: skip

    def fit(sweeps: list[Any], *, held_out: list[Any], **options: Any) -> Any:
        asked.update(options, fitted=[one.name for one in sweeps], held_out=[one.name for one in held_out])
        asked["plans"] = [one.plan for one in (*sweeps, *held_out)]
        return SimpleNamespace(model="model", points=[point("p")], held_out=[point("h")])

    saved: list[Any] = []
    monkeypatch.setattr(calibrate, "fit_cost_model", fit)
    monkeypatch.setattr(calibrate, "as_plan", lambda plan, option: (plan, option))
    monkeypatch.setattr(calibrate, "read_measurements", lambda path: [path])
    monkeypatch.setattr(calibrate, "save_cost_model", lambda *words: saved.append(words))
    monkeypatch.setattr(calibrate, "cost_fit_rows", lambda _: [row(None, "lines")])
    words = ["calibrate", "x/a.json", "b.json", "c.json", "--plan", "p,q,r"]
    assert main(words) == 0
    assert capsys.readouterr().out == "lines\n"
    assert asked == {
        "protocols": ("simple",),
        "name": "fitted",
        "source": "fitted by treadle calibrate to a.json, b.json, c.json",
        "fitted": ["a.json", "b.json", "c.json"],
        "held_out": [],
        "plans": [("p", "--plan"), ("q", "--plan"), ("r", "--plan")],
    }
    target = tmp_path / "mine.json"
    assert main([*words, "--held-out", "2", "--protocols", "ll,simple", "-o", str(target)]) == 0
    assert (asked["fitted"], asked["held_out"]) == (["a.json"], ["b.json", "c.json"])
    assert (asked["name"], asked["protocols"]) == ("mine", ("ll", "simple"))
    assert asked["source"] == "fitted by treadle calibrate to a.json"
    assert saved == [(target, "model")]
