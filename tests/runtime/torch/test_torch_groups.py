"""The backend treadle on a mesh: each group follows its part of a plan of all groups."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from child_processes import search_path
from harness.forked_ranks import forked_ranks
from shortcuts.group_plans import solved_alone
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan_files.archive import save_plan

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

WORKER = Path(__file__).resolve().parents[2] / "harness/torch_groups_worker.py"
KINDS = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
N_RANKS = 6


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank found, with plans for one axis of the mesh."""
    folder = tmp_path_factory.mktemp("torch-groups")
    (folder / "plans").mkdir()
    (folder / "temporary").mkdir()
    mesh = Mesh((2, 3), ("dp", "tp"))
    for kind in KINDS:
        save_plan(folder / "plans" / f"{kind}.plan", solved_alone("torus:2,3", kind, mesh, "tp"))
    environment = {
        **os.environ,
        "PYTHONPATH": search_path(),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder / "temporary"),
    }
    words = [[rank, N_RANKS, folder] for rank in range(N_RANKS)]
    for process in forked_ranks(WORKER, words, environment):
        assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(N_RANKS)]


def test_both_groups_at_once_give_what_collectives_are(found: list[dict[str, Any]]) -> None:
    for rank, results in enumerate(found):
        assert results["backends"] == ["treadle", "treadle"]
        checks = results["checks"]
        assert len(checks) == 2 * 3 * 3 + 2
        assert [key for key, right in checks.items() if not right] == [], f"rank {rank}"


def test_groups_follow_their_part_of_the_plan(found: list[dict[str, Any]]) -> None:
    for rank in (0, 3):  # the first of each row says which plan is used
        lines = found[rank]["log"]
        for kind in KINDS:
            used = [line for line in lines if f": {kind} of 3 ranks" in line]
            assert used, kind
            assert all(
                "one group of plan file" in line and f"{kind}.plan (each alone" in line for line in used
            )
        others = [line for line in lines if " of 2 ranks" in line]
        assert (rank == 3) or others
        assert all("synthesised by" in line for line in others)
    assert not any(line.startswith("WARNING") for results in found for line in results["log"])
