"""Training figures 3.8, 3.9, 4.13 and A.5, and steps that others measured, beside what is printed.

Every figure here is computed: schedules are built and verified, flows certified, steps simulated.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

from shortcuts.reproduced import reproduced
from treadle.reproduction import expert_training, sharded_training, testbed_training, training_anchors
from treadle.reproduction.expansion_tables import TABLE_A1
from treadle.reproduction.printed import published_figures
from treadle.training.models.zoo import zoo_model


@cache
def rows(name: str) -> dict[str, float | str]:
    """Ours by label, in the quick form."""
    return {row.ours.label: row.ours.value for row in reproduced(name).rows}  # type: ignore[misc]


def ours(name: str, label: str) -> float:
    return float(rows(name)[label])


def theirs(name: str, label: str) -> float:
    value = published_figures()[name].figures[label].value
    assert value is not None
    return float(value)


# --- figure 3.9 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label",
    [
        "256 nodes: iteration, ShiftedRing / the paper's",
        "256 nodes: iteration, torus / the paper's",
        "1024 nodes: iteration, ShiftedRing / the paper's",
        "1024 nodes: iteration, torus / the paper's",
        "1024 nodes: all-to-all's share, ShiftedRing",
        "1024 nodes: all-to-all's share, torus",
    ],
)
def test_expert_parallel_training_within_5_percent(label: str) -> None:
    assert ours("figure-3.9", label) == pytest.approx(theirs("figure-3.9", label), rel=0.05)


def test_one_efficiency_meets_all_seven_figures_of_iterations() -> None:
    """At 0.19 of the peak all are within 5%; at 0.20 our share at 1024 nodes is 5.6% off."""
    for case in expert_training.CASES:
        model = expert_training.without_routers(zoo_model(case.model))
        ours_costs = expert_training.fabric_costs(case.best, TABLE_A1[case.nodes][case.best])
        others = (expert_training.ring_costs(case.nodes), expert_training.torus_costs(case.side))
        step = expert_training.expert_step(model, ours_costs, efficiency=0.19)
        found = {"all-to-all's share, the paper's": expert_training.exchange_fraction(step)}
        for costs in others:
            other = expert_training.expert_step(model, costs, efficiency=0.19)
            found[f"iteration, {costs.summary} / the paper's"] = float(other.iteration_s / step.iteration_s)
            found[f"all-to-all's share, {costs.summary}"] = expert_training.exchange_fraction(other)
        figures = published_figures()["figure-3.9"].figures
        compared = [label for label in found if f"{case.nodes} nodes: {label}" in figures]
        assert len(compared) == (2 if case.nodes == 256 else 5)
        for label in compared:
            assert found[label] == pytest.approx(
                theirs("figure-3.9", f"{case.nodes} nodes: {label}"), rel=0.05
            )


def test_share_of_our_all_to_alls_at_1024_nodes() -> None:
    """30% is printed, with an all-to-all that distances forbid: with it 31.0, with the certified one 31.7."""
    place = "1024 nodes: all-to-all's share, the paper's"
    printed = theirs("figure-3.9", place)
    assert ours("figure-3.9", f"{place}, at the printed rate") == pytest.approx(printed, rel=0.05)
    assert ours("figure-3.9", place) == pytest.approx(printed, abs=2)


@pytest.mark.parametrize("nodes", [256, 1024])
def test_how_far_above_the_bound(nodes: int) -> None:
    """Ours at most 5%, as printed; Treadle's own design at most 2.5%; both at least 0."""
    place = f"{nodes} nodes: iteration"
    assert 0 <= ours("figure-3.9", f"{place}, the paper's above the bound") <= 5
    assert 0 <= ours("figure-3.9", f"{place}, Treadle's design above the bound") <= 2.5


@pytest.mark.parametrize(
    ("nodes", "ring", "torus"), [(256, 8.4, 2.1), (1024, 26.6, 3.33)], ids=["256", "1024"]
)
def test_all_to_all_ratios_follow_from_the_printed_rates(nodes: int, ring: float, torus: float) -> None:
    """At table A.1's f; certified, L^2(DBJMod(4,2)) is 2% faster and L^3(C(16,{3,4})) 3.3% slower."""
    rates = {"ShiftedRing": ring, "torus": torus}
    case = next(one for one in expert_training.CASES if one.nodes == nodes)
    printed = expert_training.PRINTED_RATE[nodes]
    baselines = (expert_training.ring_costs(nodes), expert_training.torus_costs(case.side))
    for costs in baselines:
        assert printed / costs.exchange == pytest.approx(rates[costs.summary], rel=0.005)
        ratio = ours("figure-3.9", f"{nodes} nodes: all-to-all, {costs.summary} / the paper's")
        assert ratio == pytest.approx(rates[costs.summary], rel=0.035)


def test_routers_are_what_is_left_out() -> None:
    """0.13e9 weights in Switch-C: with them ShiftedRing takes 8.3 times ours."""
    whole = zoo_model("switch-c")
    rest = expert_training.without_routers(whole)
    assert whole.parameters - rest.parameters == 30 * 2080 * 2048
    assert ours(
        "figure-3.9", "1024 nodes, with routers: iteration, ShiftedRing / the paper's"
    ) == pytest.approx(8.3, abs=0.1)


def test_the_timeline_is_the_drawn_one() -> None:
    """Figure A.5: one collective at a time, nothing computed during an all-to-all; 12 expert layers."""
    assert ours("figure-A.5", "pairs of communications that overlap") == 0
    assert ours("figure-A.5", "computations during an all-to-all") == 0
    assert ours("figure-A.5", "all-to-alls") == 48


# --- figure 4.13 -------------------------------------------------------------------------------------------

LARGE = ("Gemma-2-27b", "Llama-2-70b", "Llama-3-119b")


@pytest.mark.parametrize("case", sharded_training.CASES, ids=lambda case: case.name)
def test_fully_sharded_training(case: sharded_training.ShardedCase) -> None:
    """Shares of compute: 87% or more of small models, 65, 50, 43 +- 7 points; gains < 5%, 14, 20, 20 +- 2."""
    share_of, gain_of = f"{case.name}: compute's share with NCCL", f"{case.name}: iteration below NCCL"
    share, gain = ours("figure-4.13", share_of), ours("figure-4.13", gain_of)
    if case.name in LARGE:
        assert share == pytest.approx(theirs("figure-4.13", share_of), abs=7)
        assert gain == pytest.approx(theirs("figure-4.13", gain_of), abs=2)
    else:
        assert share >= 87
        assert 0 < gain < 5


@pytest.mark.parametrize(("name", "gain"), list(zip(LARGE, (8, 12, 12), strict=True)))
def test_measured_rates_do_not_give_the_printed_gains(name: str, gain: float) -> None:
    """187 and 247 GB/s (preprint, table 3) give 8, 12, 12%: the paper contradicts itself."""
    found = ours("figure-4.13", f"{name}: iteration below NCCL, at the measured rates")
    assert found == pytest.approx(gain, abs=1)
    assert found < theirs("figure-4.13", f"{name}: iteration below NCCL") - 2


def test_step_with_full_contention_is_compute_and_communication_one_after_the_other() -> None:
    """Kappa 2 gains nothing by overlap, so that the step is a sum that needs no simulation."""
    case = sharded_training.CASES[4]
    model, rate = zoo_model(case.model), Fraction(200 * 10**9)
    step = sharded_training.sharded_step(case, rate)
    # the last layer's backward pass follows at once: its weights are not gathered again
    sent_s = 2 * (3 * model.parameters - model.layers[-1].parameters) / rate
    assert float(step.iteration_s) == pytest.approx(float(step.compute_s) + sent_s, rel=1e-6)


# --- figure 3.8 --------------------------------------------------------------------------------------------


def test_testbed_allreduces_layer_by_layer() -> None:
    """Within 10 points of 30 and 50%."""
    for name, printed in (("ShiftedRing", 30), ("double binary tree", 50)):
        label = f"8 nodes, small models: allreduces alone, below {name}, mean"
        assert ours("figure-3.8", label) == pytest.approx(printed, abs=10)


@pytest.mark.parametrize("nodes", [8, 12])
def test_testbed_order(nodes: int) -> None:
    assert rows("figure-3.8")[f"order of iterations at {nodes} nodes"] == (
        "ours, ShiftedRing, double binary tree"
    )


@pytest.mark.parametrize(("nodes", "most", "printed"), [(8, 2.9, 10), (12, 4.9, 7)])
def test_a_bucket_allows_less_than_is_printed(nodes: int, most: float, printed: float) -> None:
    """Even if all of it were exposed, and nothing were computed."""
    saved = ours("figure-3.8", f"{nodes} nodes: an exposed bucket of 25 MB, below ShiftedRing")
    assert most - 0.2 < saved < most < printed
    for case in testbed_training.SMALL if nodes == 8 else testbed_training.GPT:
        assert ours("figure-3.8", f"{nodes} nodes, {case.model}: iteration, below ShiftedRing") > 0


# --- outside the papers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["eager", "compiled"])
@pytest.mark.parametrize("kappa", ["", ", kappa 2"])
def test_torchtitan_on_128_gpus(title: str, kappa: str) -> None:
    label = f"128 GPUs, {title}{kappa}"
    assert ours("torchtitan-2024-12", label) == pytest.approx(theirs("torchtitan-2024-12", label), rel=0.05)


@pytest.mark.parametrize("label", ["16384 GPUs, interleave 8", "16384 GPUs, CP 16, interleave 8"])
def test_llama_405b_on_16384_gpus(label: str) -> None:
    assert ours("llama-3-table-4", label) == pytest.approx(theirs("llama-3-table-4", label), rel=0.06)


def test_efficiencies_are_fitted_on_the_rows_that_are_named() -> None:
    """The row of the fit comes out as it is printed."""
    efficiency = ours("torchtitan-2024-12", "8 GPUs, eager: efficiency")
    step = training_anchors.torchtitan_step(8, training_anchors.sharded_costs("dgx_h100:1"), efficiency, 1)
    assert float(step.tokens_per_s) / 8 == pytest.approx(5762, rel=5e-4)


def test_deepseek_v3_is_not_predicted() -> None:
    """19.9 s lie outside what the two ends of overlap give, or between them: said, not fitted."""
    ends = [ours("deepseek-v3", f"step, all communication {words}") for words in ("hidden", "exposed")]
    assert ends[0] < ends[1]
