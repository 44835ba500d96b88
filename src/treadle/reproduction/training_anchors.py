"""Published training steps, compared with steps simulated with one value fitted on one row.

Sources: data/printed.toml. Fitted values are in the rows, with the row of the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial

from treadle import planning
from treadle.reproduction.paper_figure import Rows
from treadle.reproduction.training_costs import roofline_step
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import AlphaBetaCosts, Traffic
from treadle.training.models.zoo import zoo_model
from treadle.training.step import StepOutcome
from treadle.training.training_options import CommunicationStreams, Recompute, TrainingOptions

REACHED = Fraction(85, 100)
"""Fraction of the modelled rates that NCCL reaches in large collectives on such machines; assumed."""
LLAMA_ROW = 430.0
"""TFLOP/s of the row that is fitted."""
TORCHTITAN_ROWS = {"eager": 5762, "compiled": 6667}
"""Tokens/s of each of 8 GPUs: the rows that are fitted."""
_SHARDED = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
_TOKENS = 8192
_MOST_SECANTS, _CLOSE = 10, 2e-4


def fitted(value_at: Callable[[float], float], wanted: float) -> float:
    """Return the efficiency at which a speed is the wanted one.

    A step's seconds are nearly linear in 1 / efficiency, so that secants find it in a few steps.
    """
    share, other = 0.5, 0.4
    slow = 1 / value_at(other)
    for _ in range(_MOST_SECANTS):
        now = 1 / value_at(share)
        if abs(now * wanted - 1) < _CLOSE or now == slow:
            break
        slope = (now - slow) / (1 / share - 1 / other)
        other, slow = share, now
        share = min(1.0, 1 / max(1.0, 1 / share + (1 / wanted - now) / slope))
    return share


def sharded_costs(fabric: str) -> AlphaBetaCosts:
    """Return the costs of weights over all GPUs, at what NCCL reaches of Treadle's rate."""
    rate = planning.bound(fabric, CollectiveKind.ALLGATHER).algbw * REACHED
    return AlphaBetaCosts(0, {(kind, ("fsdp",)): rate for kind in _SHARDED})


def torchtitan_step(gpus: int, costs: AlphaBetaCosts, efficiency: float, kappa: float) -> StepOutcome:
    """Simulate a step of Llama 3 8B: two sequences a GPU, weights over all GPUs."""
    options = TrainingOptions(kappa=kappa, recompute=Recompute.ATTENTION)
    model, axes = zoo_model("llama-3-8b"), {"fsdp": gpus}
    tokens = {"": _TOKENS}
    return roofline_step(model, axes, costs, options, 2 * gpus, tokens, device="h100", efficiency=efficiency)


def torchtitan(_full: bool) -> Rows:
    """Yield 128 GPUs from 8, with and without contention."""
    small, large = sharded_costs("dgx_h100:1"), sharded_costs("dgx_h100:16")
    for title, measured in TORCHTITAN_ROWS.items():
        for kappa, words in ((1, ""), (2, ", kappa 2")):

            def speed(gpus: int, costs: AlphaBetaCosts, efficiency: float, kappa: int = kappa) -> float:
                return float(torchtitan_step(gpus, costs, efficiency, kappa).tokens_per_s) / gpus

            efficiency = fitted(lambda share: speed(8, small, share), measured)
            yield f"8 GPUs, {title}: efficiency{words}", efficiency, "of the peak", "fitted on this row"
            yield f"128 GPUs, {title}{words}", speed(128, large, efficiency), "tokens/s a GPU"


@dataclass(frozen=True)
class LlamaRow:
    """A row of table 4: ranks along pp, cp, fsdp; sequences of a batch and their tokens."""

    name: str
    fsdp: int
    cp: int
    sequences: int
    tokens: int


LLAMA_ROWS = (
    LlamaRow("8192 GPUs", 64, 1, 2048, 8192),
    LlamaRow("16384 GPUs", 128, 1, 2048, 8192),
    LlamaRow("16384 GPUs, CP 16", 8, 16, 128, 131072),
)
INTERLEAVES = (2, 4, 8)
_STAGES, _TENSOR = 16, 8


def box_costs(row: LlamaRow) -> AlphaBetaCosts:
    """Return the costs of boxes of 8 GPUs: tensor parallelism inside, all else GPU i to GPU i of other boxes.

    A group of n GPUs in n boxes has a NIC for each: each gathers at n / (n - 1) times its rate, concurrently.
    """
    nvlink, nic = 450 * 10**9 * REACHED, 50 * 10**9 * REACHED
    rates: dict[Traffic, Fraction] = {(None, ("pp",)): nic}
    groups: dict[tuple[str, ...], int] = {
        ("cp",): row.cp,
        ("fsdp",): row.fsdp,
        ("fsdp", "cp"): row.fsdp * row.cp,
    }
    for axes, size in groups.items():
        if size > 1:
            rates |= {(kind, axes): nic * Fraction(size, size - 1) for kind in _SHARDED}
    rates |= {(kind, ("tp",)): nvlink * Fraction(_TENSOR, _TENSOR - 1) for kind in _SHARDED}
    return AlphaBetaCosts(0, rates)


def llama_step(row: LlamaRow, interleave: int, efficiency: float) -> StepOutcome:
    """Return a step of 405B: one sequence a micro-batch, weights kept gathered after the forward pass."""
    model = zoo_model("llama-3-405b")
    options = TrainingOptions(
        kappa=1,
        streams=CommunicationStreams.PER_AXIS,
        micro_batches=row.sequences // row.fsdp,
        interleave=interleave,
        layers_per_chunk=(model.n_layers // (_STAGES * interleave),) * (_STAGES * interleave),
    )
    axes = {"fsdp": row.fsdp, "pp": _STAGES, "cp": row.cp, "tp": _TENSOR}
    costs, tokens = box_costs(row), {"": row.tokens}
    return roofline_step(
        model, axes, costs, options, row.sequences, tokens, device="h100", efficiency=efficiency
    )


@cache
def llama_tflops(row: LlamaRow, interleave: int, efficiency: float) -> float:
    """Return a GPU's model TFLOP/s: forward and backward without recomputation or masked scores."""
    return llama_step(row, interleave, efficiency).flops_per_rank_per_s / 1e12


def llama_405b(full: bool) -> Rows:
    """Yield both rows of 16384 GPUs from that of 8192, for each interleave."""
    first, *others = LLAMA_ROWS
    for interleave in INTERLEAVES if full else INTERLEAVES[-1:]:
        efficiency = fitted(partial(llama_tflops, first, interleave), LLAMA_ROW)
        place = f"interleave {interleave}"
        yield f"{first.name}, {place}: efficiency", efficiency, "of the peak", "fitted on this row"
        for row in others:
            yield f"{row.name}, {place}", llama_tflops(row, interleave, efficiency), "TFLOP/s a GPU"


DEEPSEEK_EFFICIENCY = 0.6
"""Fraction of the fp8 peak: assumed."""
_STAGES_OF_DEEPSEEK, _EXPERT_RANKS, _REPLICAS = 16, 64, 2


def deepseek_costs(*, is_hidden: bool) -> AlphaBetaCosts:
    """Return costs: a NIC of 50 GB/s a GPU; a token goes to at most 4 of 8 boxes in fp8, and back in bf16.

    Exchanges are counted as eight copies of a token in bf16: of these 16 bytes per element, 7/8 x 4 x 1.5
    leave the box, so that the rate is 50 GB/s x 16 / 5.25. NVLink (160 GB/s) carries the rest meanwhile.
    """
    nic = Fraction(10**21 if is_hidden else 50 * 10**9)
    over_all = _REPLICAS * _EXPERT_RANKS
    rates: dict[Traffic, Fraction] = {
        (None, ("pp",)): nic,
        (CollectiveKind.ALLTOALL, ("ep",)): nic * 16 / (Fraction(7, 8) * 4 * Fraction(3, 2)),
        (CollectiveKind.ALLREDUCE, ("dp", "ep")): nic / 2 * Fraction(over_all, over_all - 1),
        (CollectiveKind.ALLREDUCE, ("dp",)): nic / 2 * Fraction(_REPLICAS, _REPLICAS - 1),
    }
    return AlphaBetaCosts(0, rates)


def deepseek_step(*, is_hidden: bool) -> StepOutcome:
    """Return a step of 15360 sequences of 4096 tokens on 16 stages."""
    sequences = 15_360
    options = TrainingOptions(
        kappa=1,
        streams=CommunicationStreams.PER_AXIS,
        micro_batches=sequences // (_REPLICAS * _EXPERT_RANKS),
        bucket_bytes=2**30,
    )
    return roofline_step(
        zoo_model("deepseek-v3"),
        {"pp": _STAGES_OF_DEEPSEEK, "dp": _REPLICAS, "ep": _EXPERT_RANKS},
        deepseek_costs(is_hidden=is_hidden),
        options,
        sequences,
        {"": 4096},
        device="h800",
        efficiency=DEEPSEEK_EFFICIENCY,
        precision="fp8",
    )


def deepseek_v3(_full: bool) -> Rows:
    """Yield the two extremes between which DualPipe is."""
    for words, is_hidden in (("exposed", False), ("hidden", True)):
        step = deepseek_step(is_hidden=is_hidden)
        yield f"step, all communication {words}", float(step.iteration_s), "s"
        yield f"compute of a stage, communication {words}", float(step.compute_s), "s"
        yield f"pipeline stands still, communication {words}", float(step.idle_s), "s"
