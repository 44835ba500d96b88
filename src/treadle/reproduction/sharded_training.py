"""Fully sharded training of language models: figure 4.13."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from treadle import planning
from treadle.reproduction.paper_figure import Rows
from treadle.reproduction.training_costs import roofline_step
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import AlphaBetaCosts
from treadle.training.models.zoo import zoo_model
from treadle.training.step import StepOutcome
from treadle.training.training_options import CommunicationStreams, TrainingOptions

FABRIC = "dgx_a100:2"
RANKS = 16
EFFICIENCY = 0.65
"""Fraction of an A100's bf16 peak: fitted to figure 4.13, as is the next."""
NETWORK = Fraction(88, 100)
"""Fraction of the rates of both schedulers."""
KAPPA = 2
MEASURED = (Fraction(187 * 10**9), Fraction(247 * 10**9))
"""Allgather of 1 GB by NCCL and ForestColl, bytes/s: preprint, table 3."""
_SHARDED = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)


@dataclass(frozen=True)
class ShardedCase:
    """A model of figure 4.13: batch per GPU and tokens of a sequence."""

    name: str
    model: str
    batch: int
    tokens: int


CASES = (
    ShardedCase("Gemma-2-2b", "gemma-2-2b", 8, 2048),
    ShardedCase("Llama-2-7b", "llama-2-7b", 12, 1024),
    ShardedCase("Llama-3-8b", "llama-3-8b", 8, 1024),
    ShardedCase("Gemma-2-27b", "gemma-2-27b", 1, 2048),
    ShardedCase("Llama-2-70b", "llama-2-70b", 1, 1024),
    ShardedCase("Llama-3-119b", "llama-3-119b", 1, 1024),
)
"""Batches of Llama-3-8b and 70b are given in the paper; the others are assumed."""


def searched_rates() -> tuple[Fraction, Fraction]:
    """Return the allgather of the ring that NCCL runs and of Treadle's trees, bytes/s."""
    ring = planning.solve(FABRIC, CollectiveKind.ALLGATHER, algorithm="ring")
    return ring.algbw, planning.bound(FABRIC, CollectiveKind.ALLGATHER).algbw


def sharded_step(case: ShardedCase, rate: Fraction) -> StepOutcome:
    """Return the forward and backward pass with weights gathered twice and gradients scattered, all in bf16.

    `rate` is the algbw of allgather and reduce-scatter, bytes/s.
    """
    costs = AlphaBetaCosts(0, {(kind, ("fsdp",)): rate for kind in _SHARDED})
    options = TrainingOptions(kappa=KAPPA, has_optimizer=False, streams=CommunicationStreams.ONE)
    model, axes, tokens = zoo_model(case.model), {"fsdp": RANKS}, {"": case.tokens}
    return roofline_step(
        model, axes, costs, options, case.batch * RANKS, tokens, device="a100", efficiency=EFFICIENCY
    )


def compute_fraction(step: StepOutcome) -> float:
    """Compute alone, without what contention adds, of the iteration, in %."""
    return 100 * float(step.compute_s / step.iteration_s)


def gain(slow: StepOutcome, fast: StepOutcome) -> float:
    """Return the reduction of the iteration time, in %."""
    return 100 * float(1 - fast.iteration_s / slow.iteration_s)


def figure_4_13(_full: bool) -> Rows:
    """Yield the shares of compute and gains over NCCL, at Treadle's rates and at measured ones."""
    ring, trees = searched_rates()
    yield "NCCL-like ring: algbw", ring / 10**9, "GB/s"
    yield "Treadle: algbw", trees / 10**9, "GB/s"
    for case in CASES:
        slow, fast = (sharded_step(case, rate * NETWORK) for rate in (ring, trees))
        yield f"{case.name}: iteration with NCCL", float(slow.iteration_s), "s"
        yield f"{case.name}: compute's share with NCCL", compute_fraction(slow), "%"
        yield f"{case.name}: iteration below NCCL", gain(slow, fast), "%"
        measured = [sharded_step(case, rate) for rate in MEASURED]
        yield f"{case.name}: iteration below NCCL, at the measured rates", gain(*measured), "%"
    for name, exposed, saved in (("27b", 35, 14), ("70b", 50, 20), ("119b", 57, 20)):
        ratio = Fraction(exposed, exposed - saved)
        yield f"{name}: ratio of rates that {saved}% of exposed {exposed}% needs", ratio, "times"
