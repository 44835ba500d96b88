"""What commands load before they start: a second of imports is felt at every call."""

from __future__ import annotations

import os
import sys

import pytest

from child_processes import finished, search_path

SLOW = {"numpy", "joblib", "highspy", "lxml", "rich", "ortools", "matplotlib", "asyncio", "multiprocessing"}
LOADED = "import sys; from treadle.cli.main import main; main({!r}); print(*sys.modules, file=sys.stderr)"


def loaded_by(*argv: str) -> set[str]:
    """Modules in a fresh interpreter that has run the command."""
    environment = {**os.environ, "PYTHONPATH": search_path()}
    done = finished([sys.executable, "-c", LOADED.format(list(argv))], environment=environment)
    assert done.returncode == 0
    return set(done.stderr.split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_help_and_version_load_no_library(option: str) -> None:
    loaded = loaded_by(option)
    assert not loaded & SLOW
    assert {name.split(".")[1] for name in loaded if name.startswith("treadle.")} <= {
        "_version",
        "cli",
        "errors",
        "lazy",
        "options",
        "render",
        "spelling",
        "context",
    }


def test_a_bound_loads_no_more_than_it_needs() -> None:
    loaded = loaded_by("bound", "ring:4", "allgather")
    assert not loaded & (SLOW - {"numpy"})
    assert "treadle.synthesis.trees.optimality" in loaded
    others = (
        "treadle.program.program",
        "treadle.finder",
        "treadle.runtime",
        "treadle.simulation.tasks",  # least times of sizes are of this room; tasks are what is large in it
        "treadle.cli.solving.solve",
    )
    assert not loaded & set(others)
    assert not [name for name in loaded if name.startswith("treadle.synthesis.alltoall.")]


MOST_MODULES = 263
"""Of the package, for trees: the table of schedulers names functions, and loads those that are called."""


def test_trees_load_what_they_need_and_no_solver_of_linear_programs() -> None:
    loaded = loaded_by("solve", "dgx_a100:2", "allgather")
    assert "highspy" not in loaded
    own = {name for name in loaded if name.partition(".")[0] == "treadle"}
    assert len(own) <= MOST_MODULES
    others = ("trees.baselines", "steps.baselines", "alltoall.baselines", "peers", "sizes")
    assert not [name for name in own if name.startswith(tuple(f"treadle.synthesis.{one}." for one in others))]
