"""Options of steps of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.errors import FormatError
from treadle.options.rows import REQUIRED, Options, arg, either, keyword, opt, positive, rare, written
from treadle.options.shared import Costs, NcclLog, Reporting

PRECISIONS = ("bf16", "fp16", "fp8", "fp32", "tf32")


def _batches(text: str, label: str) -> tuple[int, ...]:
    """Integers of at least 1, separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 10 for part in parts):
        raise FormatError(f"{label} {text[:40]!r}: expected integers separated by commas")
    return tuple(map(int, parts))


def _share(text: str, label: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FormatError(f"{label} {text[:40]!r}: expected a share such as 0.8, or none") from None


class Device(Options):
    """Fabrics, their GPU, and the cost of messages without a cost model."""

    fabric: list[str] = opt("Fabric; repeatable; default that of treadle.toml.", (), metavar="FABRIC")
    gpu: str = opt("GPU, e.g. a100, h100, mi300x, or a TOML file.", REQUIRED, metavar="GPU")
    efficiency: float | None = opt("Share of the GPU's peak; default a preset of GPU and precision.")
    alpha_s: float | None = opt("Latency of every message, instead of a cost model.")
    forward: bool = opt("Let ranks of other groups forward.", False)


class Step(Options):
    """Keyword arguments of `train` besides model, fabrics, mesh and GPU; see there.

    Examples
    --------
    >>> import treadle
    >>> options: treadle.planning.TrainKeywords = {"sequence": 1024, "precision": "bf16"}
    >>> found = treadle.train("gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", schedules="bound", **options)
    >>> found.rows[0].outcome
    <StepOutcome 0.0041 s iteration, mfu 0.2014>
    """

    batch: Any = opt(
        "Sequences of a step, on all ranks; default one per replica.",
        metavar="N",
        parse=_batches,
        takes="int | None",
    )
    sequence: str | None = opt(
        "Tokens per sequence (encoder,decoder); default at most 4096.",
        metavar="TOKENS",
        takes="int | str | Mapping[str, int] | None",
    )
    micro_batches: int = opt("Micro-batches of a replica's batch.", 1)
    interleave: int = rare("Virtual stages per pipeline stage.", 1)
    bucket_bytes: int | None = opt(
        "Gradient bucket, e.g. 25MB; default the best.", parse=either("best", None, positive)
    )
    prefetch: int = rare("Layers whose weights are gathered ahead.", 1)
    reshard: bool | None = rare("Gather weights again in the backward pass; default without pipeline.")
    zero: int = opt("Shard over replicas: 1 optimizer states, 2 gradients too.", 0, metavar="0|1|2")
    sequence_parallel: bool = rare("Over tp: gather and scatter tokens, not sum all.", True)
    context_exchange: str = rare(
        "Over cp: gather keys and values, or pass them in a ring.", "gather", words="gather ring"
    )
    recompute: str = opt(
        "Recompute none, attention (if not fused) or full in the backward pass.",
        "none",
        words="none attention full",
    )
    fused_attention: bool = rare("Attention stores no scores and recomputes them.", True)
    precision: str | None = opt("Precision of products.", words=" ".join(PRECISIONS))
    gradients: str | None = rare(
        "Precision of reduced gradients; default --precision.", words="bf16 fp16 fp32"
    )
    layer_times: Path | None = rare(
        "Measured layer times (CSV of layer,forward_s,backward_s).", takes="Path | str | None"
    )
    efficiency = Device.efficiency
    memory_efficiency: float | None = rare(
        "Share of its memory bandwidth; none: memory traffic is free.",
        0.8,
        metavar="X|none",
        parse=either("none", None, _share),
    )
    calibrate_s: float | None = rare("Measured time of the first step, to find the efficiency.")
    contention: str | None = rare(
        "Compute-communication contention: a preset or 1 to 2; default by GPU.",
        metavar="NAME|X",
        takes="str | float | None",
    )
    network_efficiency: list[str] = rare(
        "Share of all modelled rates, or allgather=nccl.log; repeatable.",
        (),
        metavar="X|KIND=FILE",
        takes="NetworkEfficiency | float | str | Sequence[str] | None",
    )
    streams: str = rare(
        "per-axis: axes communicate concurrently; one: one at a time.",
        "per-axis",
        words="one per-axis",
    )
    capacity_factor: float = rare("Tokens sent to experts over tokens routed.", 1.0)
    alltoall_overtakes: bool = rare("Let all-to-alls overtake waiting communication.", False)
    alpha_s = Device.alpha_s
    cost_model = Costs.cost_model
    forward = Device.forward
    simulates: bool = rare(
        "Simulate schedules of up to 64 ranks, instead of alpha and rate.", True, flag="--simulate"
    )
    samples: bool = rare("The table of layers counts per sample, not per token.", False)
    file_format: str | None = keyword()


class Train(Device, Step, NcclLog, Reporting):
    """Options of ``train``."""

    model: str = arg("MODEL", "A name, e.g. llama-3-8b, a config.json, or a table of layers.")
    mesh: str = opt("Axes (dp, fsdp, tp, cp, ep, pp) and ranks, e.g. fsdp=16,tp=8.", REQUIRED, metavar="MESH")
    gpu, fabric = Device.gpu, Device.fabric
    schedule: list[str] = opt("Schedules; default treadle,ring,bound; repeatable.", (), words="schedules")
    phase: str | None = opt("Phase of serving instead of training: prefill or decode.")
    trace: Path | None = written("Timeline of the first row (.json, .pftrace, or .gz).")
    picture: Path | None = written("Timeline of the first row (.png, .svg or .pdf).")
    chakra: Path | None = opt("Chakra execution traces of the first row, one per rank.", metavar="FOLDER")
    workload: Path | None = written("Communication of the first row, for design --workload.")
    report: Path | None = written("HTML report of all rows (.html).")
