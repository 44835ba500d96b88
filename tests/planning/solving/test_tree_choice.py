"""What plans say of their number of trees, and that limits hold for allreduces of every construction."""

from __future__ import annotations

from fractions import Fraction

import pytest

import places
from harness.summaries import solve_summary
from treadle.errors import FormatError, InfeasibleError
from treadle.planning import lower, make_problem, solve
from treadle.schedulers import forestcoll
from treadle.schedulers.forest_request import tree_budget
from treadle.schedulers.forestcoll import _request, _unit_limits
from treadle.schedulers.tree_choice import _dyadic
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.result import Alternative, Result
from treadle.synthesis.scheduler_options import Form
from treadle.synthesis.trees import Packer
from treadle.synthesis.trees.allreduce import UnitLimits
from treadle.topologies import Topology, TopologyBuilder

GB = 10**9
WEIGHTED = places.FOREIGN_SAMPLES / "treadle_fabric_weights.json"


def test_what_a_power_of_two_of_chunks_gives_up_is_said() -> None:
    result = solve("dgx_a100:2", "allgather")
    assert (result.trees_per_root, result.exact_trees_per_root) == (8, 13)
    assert result.algbw == Fraction(12800, 37) * GB
    [note] = result.notes
    assert note.startswith("8 trees per root, 0.21% below the optimum with 13; --exact builds those")
    assert "128 chunks divide buffers of a power of two" in note
    values = solve_summary(result)
    assert (values["trees"], values["power_of_two"]) == (128, True)
    assert values["alternatives"] == [{"option": "--exact", "gap": 0.0, "trees_per_root": 13}]
    exact = solve("dgx_a100:2", "allgather", exact=True)
    assert exact.is_optimal
    assert (exact.trees_per_root, exact.notes) == (13, ())
    assert solve_summary(exact)["power_of_two"] is False


@pytest.mark.parametrize(
    ("fabric", "kind", "chunks", "loss"),
    [
        ("dgx_a100:2", "reduce-scatter", 128, Fraction(1, 481)),
        ("dgx_a100:2", "allreduce", 128, Fraction(1, 481)),
        ("mi250:2", "allgather", 512, Fraction(59, 6059)),
        ("mi250:2", "allreduce", 512, Fraction(59, 6059)),
        ("dgx_h100:2", "allgather", 32, Fraction(0)),
        ("dgx_h100:2", "allreduce", 32, Fraction(0)),
    ],
)
def test_default_plans_divide_buffers_of_a_power_of_two(
    fabric: str, kind: str, chunks: int, loss: Fraction
) -> None:
    result = solve(fabric, kind)
    assert isinstance(result.plan.entries[-1].schedule, ForestSchedule)
    assert result.plan.entries[-1].schedule.total_units == chunks
    assert result.optimal_algbw is not None
    assert 1 - result.algbw / result.optimal_algbw == loss
    assert bool(result.alternatives) == bool(loss)


def test_ranks_that_are_no_power_of_two() -> None:
    """Nothing is given up for 24 ranks: 10 trees each serve few sizes, 4 trees shards of a power of two."""
    result = solve("dgx_h100:3", "allgather")
    assert result.is_optimal
    assert result.trees_per_root == 10
    [note] = result.notes
    assert note.startswith("240 chunks on 24 ranks: exported files support shards divisible by 10; lower ")
    assert note.endswith("4 per root, 0.24% below the optimum, support powers of two (--trees 4)")
    [offer] = result.alternatives
    asked = solve("dgx_h100:3", "allgather", trees=4)
    assert (offer.option, offer.trees_per_root) == ("--trees 4", 4)
    assert asked.optimal_algbw is not None
    assert 1 - asked.algbw / asked.optimal_algbw == offer.loss


@pytest.mark.parametrize(
    ("fabric", "trees"), [("complete(3)", 1), ("complete(6)", 1), ("dgx_a100:3", 1), ("dgx_h100:3", 10)]
)
def test_allreduces_of_other_numbers_of_ranks_give_nothing_up(fabric: str, trees: int) -> None:
    """What `lower` then cuts anew costs as much as trees that make a power of two of chunks did."""
    result = solve(fabric, "allreduce")
    assert result.is_optimal
    assert result.trees_per_root == trees
    assert (
        f"{trees * result.plan.collective.n_ranks} chunks do not divide a power-of-two buffer; lower cuts"
        in (result.notes[-1])
    )
    assert not result.alternatives


def test_what_the_notes_say_of_texts_is_so() -> None:
    """An allreduce's buffer is cut anew; shards of 24 ranks keep their chunks unless one is asked for."""
    made = lower(solve("dgx_a100:3", "allreduce").plan, to="mscclpp-json", instances=1)
    assert made.n_chunks == 256
    plan = solve("dgx_h100:3", "allgather").plan
    assert lower(plan, to="msccl-xml", instances=1).n_chunks == 240
    assert lower(plan, to="msccl-xml", chunks=64).n_chunks == 24 * 64
    assert solve("torus:3,3", "allgather").notes == ()


def test_a_limit_per_root_is_one_of_all_roots_together_where_roots_are_free() -> None:
    """Reduce-scatter and allgather reach 104.7 GB/s with 144 trees; 8 trees in all reach the optimum."""
    for options in ({"max_trees": 10}, {"max_trees": 1}, {"trees": 1}):
        result = solve("mi250(2, 8)", "allreduce", **options)
        assert result.algbw == 128 * GB
        assert result.is_optimal
        assert not result.alternatives
        assert not any("--exact" in note for note in result.notes)
    assert solve_summary(solve("mi250(2, 8)", "allreduce", max_trees=10))["trees"] == 8
    phases = solve("mi250(2, 8)", "allreduce", algorithm="rs-ag", max_trees=10)
    assert phases.algbw < Fraction(105) * GB


def odd() -> Topology:
    builder = TopologyBuilder("odd")
    for name in "abcd":
        builder.compute(name)
    for one, other, bandwidth in (
        ("a", "b", 29),
        ("b", "c", 17),
        ("c", "d", 23),
        ("a", "c", 5),
        ("b", "d", 7),
    ):
        builder.duplex(one, other, bandwidth)
    return builder.build()


def test_hints_name_what_does_better() -> None:
    limited = solve(odd(), "allreduce", max_trees=1)
    assert solve_summary(limited)["trees"] <= 4
    assert limited.exact_trees_per_root is None  # reduce-scatter and allgather never reach the bound
    exact = solve(odd(), "allreduce", exact=True)
    assert exact.is_optimal
    assert limited.algbw < exact.algbw
    assert limited.exact_trees == solve_summary(exact)["trees"]
    assert f"the optimum takes {limited.exact_trees} trees in all (--exact)" in limited.notes
    within = solve("mi250:2", "allreduce", max_trees=10)
    assert within.algbw == 177 * GB
    assert "the optimum takes 83 trees per root (--exact)" in within.notes
    assert solve_summary(within)["trees"] == 177


def test_default_limits_hold_for_allreduces_of_every_construction() -> None:
    for fabric in ("mi250:2", "mi250(2, 8)", "dgx_a100:3", "kautz(2, 3)"):
        result = solve(fabric, "allreduce")
        assert solve_summary(result)["trees"] <= 64 * result.plan.collective.n_ranks
        ranks = result.plan.collective.n_ranks
        assert solve_summary(result)["power_of_two"] is (ranks & (ranks - 1) == 0)
        assert result.optimal_algbw is not None
        assert result.algbw > Fraction(99, 100) * result.optimal_algbw


@pytest.mark.parametrize("target", ["msccl-xml", "mscclpp-json"])
def test_the_papers_own_allreduce_lowers(target: str) -> None:
    made = lower(solve("mi250:2", "allreduce").plan, to=target)
    assert made.faults == ()
    assert made.n_chunks == 512


@pytest.mark.skipif(not WEIGHTED.exists(), reason="needs a sample beside the checkout")
def test_unequal_shards_are_scanned_as_far_as_equal_ones() -> None:
    """15 units of weight on 6 ranks: 3 trees lose 2.1%, 5 lose .09%; 273 attain the optimum, not 546."""

    def made(**options: bool | int) -> tuple[int | None, int | None, Fraction]:
        result = solve(
            str(WEIGHTED), "allgather", ranks="1,3,5,6,9,11", weights=(1, 1, 4, 4, 4, 1), **options
        )
        assert result.optimal_algbw is not None
        return result.trees_per_root, result.exact_trees_per_root, 1 - result.algbw / result.optimal_algbw

    trees, exact, loss = made()
    assert exact == 273
    assert trees is not None
    assert trees * 15 <= 64 * 6
    assert loss < Fraction(1, 1000)
    assert made(exact=True) == (273, 273, 0)
    assert made(max_trees=3)[2] > Fraction(2, 100)


def test_requests_in_the_types_of_the_trade() -> None:
    plain = _request(None)
    assert (plain.packer, plain.form, plain.trim, plain.budget) == (None, Form.AUTO, False, tree_budget())
    packer = next(iter(Packer))
    asked = _request(None, trees=3, packer=packer.value, form="factored", trim=True)
    assert (asked.packer, asked.form, asked.trim) == (packer, Form.FACTORED, True)
    assert asked.budget == tree_budget(trees=3)
    with pytest.raises(FormatError, match=r"^unknown packer 'growt'; did you mean growth"):
        _request(None, packer="growt")
    with pytest.raises(FormatError) as caught:
        _request(None, form="x" * 50)
    assert str(caught.value) == f"unknown form {'x' * 40!r}; expected one of {', '.join(Form)}"


@pytest.mark.parametrize(
    ("ranks", "budget", "limits"),
    [
        (4, {"exact": True}, None),
        (4, {"trees": 3}, UnitLimits(12, is_fixed=True)),
        (5, {"max_trees": 3}, UnitLimits(15)),
        # 64 trees a rank; a power of two of ranks may have 16 each for a hundredth
        (4, {}, UnitLimits(256, dyadic=64, dyadic_loss=Fraction(1, 100))),
        (5, {}, UnitLimits(320, dyadic=0, dyadic_loss=Fraction(1, 100))),
    ],
)
def test_what_all_roots_together_may_have(
    ranks: int, budget: dict[str, int], limits: UnitLimits | None
) -> None:
    collective = make_problem(f"ring:{ranks}", "allreduce").collective
    assert _unit_limits(collective, tree_budget(**budget)) == limits  # type: ignore[arg-type]


def test_trees_that_are_too_many_to_be_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert forestcoll.MAX_WRITTEN_OUT == 2**14
    monkeypatch.setattr(forestcoll, "MAX_WRITTEN_OUT", 4)
    assert solve("ring:4", "allgather").is_optimal
    assert solve("ring:5", "broadcast").is_optimal
    with pytest.raises(InfeasibleError) as caught:
        solve("ring:5", "allgather")
    assert str(caught.value).startswith(
        "ring(5): trees of 5 ranks are too many to be written out (at most 4 ranks)"
    )


def made(per_root: int | None) -> Result:
    return Result(None, None, "a", trees_per_root=per_root)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fabric", "kind", "part"), [("ring:4", "allgather", "shards"), ("ring:3", "allreduce", "it")]
)
def test_chunks_that_lowering_cuts_anew(fabric: str, kind: str, part: str) -> None:
    assert _dyadic(make_problem(fabric, kind), made(3), 12) == (
        f"12 chunks do not divide a power-of-two buffer; lower cuts {part} into a power of two of chunks, "
        "unequal among trees, where that costs less than 1% (--chunks)",
        None,
    )


def test_chunks_of_other_numbers_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve chunks of three ranks: four a shard; another number of trees is told of where that is known."""
    asked: list[int] = []

    def alternative(topology: Topology, collective: object) -> tuple[int, Fraction]:
        asked.append(topology.n_nodes)
        return 8, Fraction(1, 50)

    monkeypatch.setattr("treadle.schedulers.tree_choice.forestcoll.dyadic_alternative", alternative)
    text = (
        "12 chunks on 3 ranks: exported files support shards divisible by 4; lower lists the sizes, and "
        "changes chunks where that supports more (--chunks)"
    )
    problem = make_problem("ring:3", "allgather")
    for per_root in (None, 4):
        assert _dyadic(problem, made(per_root), 12) == (text, None)
    assert asked == []
    told, offer = _dyadic(problem, made(3), 12)
    assert told == (f"{text}; 8 per root, 2.00% below the optimum, support powers of two (--trees 8)")
    assert offer == Alternative("--trees 8", Fraction(1, 50), 8, None)
    monkeypatch.setattr("treadle.schedulers.tree_choice._MOST_RANKS", 3)
    assert _dyadic(problem, made(3), 12)[1] is not None
    monkeypatch.setattr("treadle.schedulers.tree_choice._MOST_RANKS", 2)
    assert _dyadic(problem, made(3), 12) == (text, None)
