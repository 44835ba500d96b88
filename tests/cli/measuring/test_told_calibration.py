"""What calibrate asks for, writes and says, beside fits by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.cli.measuring import calibrate
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
