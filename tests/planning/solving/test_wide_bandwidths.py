"""Fabrics whose bandwidths lie far apart: every collective is solved soon, and in little memory."""

from __future__ import annotations

import pytest

from samples.wide_fabrics import wide_fabric
from treadle.planning import solve, verify

KINDS = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        *((6, kind) for kind in KINDS),
        *((seed, "allreduce") for seed in (22, 31, 35)),
        *((seed, kind) for seed in (12, 14) for kind in ("broadcast", "reduce")),
    ],
)
def test_wide_bandwidths(seed: int, kind: str) -> None:
    """Seeds that took too long or too much memory once.

    `python -m tools.fuzz --targets wide` draws others, each of which may take 20 CPU s.
    """
    fabric = wide_fabric(seed)
    options = {"root": seed % len(fabric.compute_nodes)} if kind in ("broadcast", "reduce") else {}
    result = solve(fabric, kind, **options)
    assert result.report.is_ok
    assert verify(result.plan).is_ok
    assert kind == "alltoall" or result.algbw >= result.optimal_algbw * 0.9
