"""Costs of small allreduces against kernels of serving engines (rows of ai-dynamo/aiconfigurator)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle import planning

KIB = 2**10


def one_shot_us(fabric: str, preset: str, protocol: str, kind: str, size: int) -> float:
    model = planning.cost_presets()[preset]
    chosen = tuple(one for one in model.protocols if one.name == protocol)
    plan = planning.solve(fabric, kind, algorithm="one-shot").plan
    found = planning.simulate(plan, size, cost_model=replace(model, protocols=chosen))
    return float(found.rows[0].time) * 1e6


@pytest.mark.parametrize(
    ("fabric", "preset", "protocol", "size", "measured"),
    [
        ("dgx_a100:1", "kernels-ampere", "simple", 4 * KIB, 6.3),
        ("dgx_a100:1", "kernels-ampere", "simple", 64 * KIB, 8.5),
        ("dgx_h100:1", "kernels-hopper", "simple", 4 * KIB, 5.0),
        ("dgx_h100:1", "kernels-hopper", "simple", 128 * KIB, 8.0),
        ("dgx_h100:1", "kernels-hopper", "ll", 64 * KIB, 4.6),
        ("dgx_b200:1", "kernels-blackwell", "ll", 128 * KIB, 6.3),
        ("dgx_b200:1", "kernels-blackwell", "ll", 512 * KIB, 10.7),
    ],
)
def test_one_step(fabric: str, preset: str, protocol: str, size: int, measured: float) -> None:
    """Each of 8 GPUs reads all buffers, as in an allgather of 8 times the size."""
    found = one_shot_us(fabric, preset, protocol, "allgather", 8 * size)
    assert found == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize(("size", "measured"), [(256 * KIB, 10.0), (1024 * KIB, 14.0)])
def test_two_steps(size: int, measured: float) -> None:
    found = one_shot_us("dgx_h100:1", "kernels-hopper", "simple", "allreduce", size)
    assert found == pytest.approx(measured, rel=0.08)


def test_sources_say_the_error_and_choices_have_intervals() -> None:
    for generation in ("ampere", "hopper", "blackwell"):
        model = planning.cost_presets()[f"kernels-{generation}"]
        assert "percentile on sizes left out" in model.source
        for protocol in model.protocols:
            low, high = model.bands[f"{protocol.name}.box.alpha_ns"]
            assert low < protocol.box.alpha_ns < high
