"""The backend treadle of torch.distributed in four processes, beside gloo."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from child_processes import search_path
from harness.forked_ranks import forked_ranks
from treadle.planning import solve
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import save_plan

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

WORKERS = Path(__file__).resolve().parents[2]
N_RANKS = 4


def run_ranks(worker: str, folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """All ranks of a worker, started together and ended together."""
    environment = {
        **os.environ,
        "PYTHONPATH": search_path(),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder / "temporary"),
    }
    (folder / "temporary").mkdir()
    words = [[rank, N_RANKS, folder] for rank in range(N_RANKS)]
    return forked_ranks(WORKERS / worker, words, environment)


def with_sizes(plan: Plan, *ranges: tuple[int, int | None]) -> Plan:
    """The plan with its schedule for these sizes only."""
    schedule = plan.entries[0].schedule
    entries = tuple(PlanEntry(low, high, schedule) for low, high in ranges)
    return Plan(plan.topology, plan.collective, entries, plan.algorithm, plan.algbw)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank found."""
    folder = tmp_path_factory.mktemp("torch")
    plans = folder / "plans"
    plans.mkdir()
    small = with_sizes(solve("ring:4", "allreduce", algorithm="bfb").plan, (0, 2**16))
    save_plan(plans / "small.plan", small)
    save_plan(plans / "other-fabric.plan", solve("complete:4", "allreduce").plan)
    (plans / "damaged.plan").write_bytes(b"PK\x03\x04 nothing")
    done = run_ranks("torch_worker.py", folder)
    for process in done:
        assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(N_RANKS)]


def test_collectives_give_the_bits_of_gloo(found: list[dict[str, Any]]) -> None:
    for rank, results in enumerate(found):
        checks = {key: value for key, value in results.items() if isinstance(value, bool)}
        assert len(checks) > 50
        assert [key for key, value in checks.items() if not value] == [], f"rank {rank}"


@pytest.mark.parametrize("way", ["DDP", "FSDP2", "FSDP2 on a mesh of 2 x 2", "DTensor"])
def test_training_gives_the_losses_of_gloo(found: list[dict[str, Any]], way: str) -> None:
    assert max(results[f"losses {way}"] for results in found) < 1e-5


def test_backend_has_its_name(found: list[dict[str, Any]]) -> None:
    assert {results["backend"] for results in found} == {"treadle"}


def test_log_says_which_plan_is_used(found: list[dict[str, Any]]) -> None:
    lines = found[0]["log"]
    assert any("allreduce of 4 ranks" in line and "synthesised by forestcoll" in line for line in lines)
    assert any("small.plan (bfb, sizes from 0B to 64KB)" in line for line in lines)
    assert any("first of 390.62KB: plan synthesised by forestcoll on ring(4)" in line for line in lines)
    assert sum("damaged.plan" in line and line.startswith("WARNING") for line in lines) == 1
    assert not any("other-fabric" in line for line in lines)
    # ranks 1 and 3 of a ring are no neighbours: the fabric is the whole ring, with the others as forwarders
    assert any(
        "of 2 ranks" in line and line.endswith("s") and "on ring(4)" in line for line in found[1]["log"]
    )


def test_what_has_no_plan_falls_back_with_one_warning(found: list[dict[str, Any]]) -> None:
    warnings = [line for line in found[0]["log"] if line.startswith("WARNING") and "left to gloo" in line]
    for name, group in (("gather", 1), ("scatter", 1), ("alltoall", 2)):
        assert sum(f": {name} is left to gloo" in line for line in warnings) == group, name
    assert any("alltoall is left to gloo" in line and "ring" in line for line in warnings)
    for results in found[1:]:
        assert not any("left to gloo" in line and "group 0" in line for line in results["log"])


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the ranks that were not killed found, by rank; everything else of them is gone by then."""
    folder, shared = tmp_path_factory.mktemp("failures"), Path("/dev/shm")
    before = set(shared.iterdir()) if shared.exists() else set()
    done = run_ranks("torch_failures_worker.py", folder)
    codes = [process.returncode for process in done]
    assert codes == [0, -signal.SIGKILL, 0, -signal.SIGKILL], [process.stderr[-2000:] for process in done]
    left = {path for path in set(shared.iterdir()) - before if "torch" in path.name or "gloo" in path.name}
    assert not left
    names = {path.name for path in (folder / "temporary").iterdir()}
    assert not {name for name in names if not name.startswith("torchinductor_")}, "PyTorch keeps a cache"
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in (0, 2)]


def test_a_killed_rank_ends_the_others_calls_at_once(failures: list[dict[str, Any]]) -> None:
    for results in failures:
        found = results["killed"]
        assert found["type"] == "DistBackendError"
        assert found["seconds"] < 20, "the timeout of the group is 60 s"
        assert "allreduce of 16MB in group 0 failed at rank" in found["text"]
        assert "its process has ended or has given up" in found["text"]
        assert "destroy the process group and make it again" in found["text"]


def test_a_broken_group_refuses_later_calls_with_the_same_words(failures: list[dict[str, Any]]) -> None:
    for results in failures:
        for key in ("after", "after, in a future"):
            assert results[key]["text"] == results["killed"]["text"]
            assert results[key]["seconds"] < 5


def test_those_that_are_left_can_start_again(failures: list[dict[str, Any]]) -> None:
    assert all(results["again"] for results in failures)


def test_a_silent_rank_ends_the_others_calls_after_the_timeout(failures: list[dict[str, Any]]) -> None:
    found = failures[0]["silent"]
    assert "no message within the group's timeout" in found["text"] or "given up" in found["text"]
    assert 1 < found["seconds"] < 30, "the timeout of the group is 4 s"


def test_a_rank_killed_in_training_ends_the_others_backward_pass(failures: list[dict[str, Any]]) -> None:
    found = failures[0]["killed in training"]
    assert "allreduce" in found["text"]
    assert "given up" in found["text"]
    assert found["seconds"] < 30, "the timeout of the group is 60 s"
