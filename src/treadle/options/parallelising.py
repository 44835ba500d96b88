"""Options of parallelization plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.options.rows import Options, arg, keyword, opt, rare, seconds, written
from treadle.options.shared import Reporting, Seed, TimeLimit
from treadle.options.training import Device


class Sharding(Options):
    """Keyword arguments of `parallelize` besides model, fabrics, mesh, GPU and tokens; see there.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> options: planning.ParallelizeKeywords = {"schedule": "ring", "gap": 0.1}
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2", **options)
    >>> found.searches[0].best
    <PricedPlan treadle, 0.00023 s, 346.28MB memory>
    """

    sequence: str | None = opt(
        "Tokens per sequence; default the model's, at most 4096.", metavar="N", takes="int | str | None"
    )
    memory_bytes: int | None = opt("Memory per rank, e.g. 72GB; default the GPU's.")
    overlap: str = rare(
        "Communication hides behind computing: none, layer or model.", "layer", words="none layer model"
    )
    constraints: list[str] = rare(
        "Fix a tensor, e.g. wq=h:0: dim h sharded over mesh axis 0; repeatable.",
        (),
        flag="--pin",
        metavar="TENSOR=STATE",
        takes="Mapping[str, str]",
    )
    schedule: str = opt("Price collectives by treadle, ring or bound.", "treadle", words="schedules")
    micro_batches: int | None = opt("Micro-batches of a pipeline; default the best.")
    interleave: int | None = rare("Virtual stages per pipeline stage; default the best.")
    zero: int = opt("ZeRO over replicas: 0 none, 1 optimizer states, 2 and gradients.", 1)
    mixed: bool = rare("Layers of a kind may take different plans.", False)
    gap: float = opt("Optimality gap of the search.", 0.01)
    efficiency = Device.efficiency
    memory_efficiency: float = rare("Share of its memory bandwidth.", 0.8)
    alpha_s = Device.alpha_s
    forward = Device.forward
    time_limit_s = TimeLimit.time_limit_s
    file_format: str | None = keyword()


class Parallelize(Device, Sharding, Reporting):
    """Options of ``parallelize``."""

    model: str = arg("MODEL", "A name, e.g. llama-3-8b, a config.json, or a captured graph.")
    gpu, fabric = Device.gpu, Device.fabric
    mesh: str = opt("Axes and ranks, e.g. 16,8 or dp=16,tp=8 (pp: pipeline).", "auto", metavar="MESH")
    tokens: str | None = opt("Tokens per step on all ranks, e.g. 1M; default the graph's.", metavar="N")
    explain: list[str] = opt(
        "Explain the states and collectives of a tensor; repeatable.", (), metavar="TENSOR"
    )
    diff: Path | None = opt("Compare with this plan of the same model.")
    output: Path | None = written("Plan to write (JSON).", short="-o")
    export: list[Path] = opt(
        "PyTorch code (.py) or torchtitan settings (.toml); repeatable.", (), writes=True
    )
    report: Path | None = written("HTML report to write (.html).")


class Capture(Reporting):
    """Options of ``capture``."""

    model: str = arg("MODEL", "MODULE.py:make (torch; the file is run), a name, or a config.json.")
    output: Path | None = written("Graph to write (JSON).", short="-o")
    repeats: int | None = opt("Repetitions of the module; default find repeated layers.")
    tokens: str | None = opt("Tokens per step on all ranks, e.g. 1M.", metavar="N")
    sequence = Sharding.sequence
    show: bool = opt("Print every operator with its dimensions.", False, flag="--print")


class Execute(Seed, Reporting):
    """Options of ``execute``."""

    plan: Path = arg("PLAN", "A plan that treadle parallelize wrote (-o plan.json).")
    module: str = arg("MODULE.py:FUNCTION", "Source of the plan's graph (extra: torch; the file is run).")
    backend: Any = opt("Backend of torch.distributed.", "gloo", choices=("gloo", "treadle"), metavar="NAME")
    fabric: str | None = opt("Fabric whose costs choose among collectives.", metavar="FABRIC")
    repeats: int | None = opt("Repetitions of the module, as for capture.")
    timeout_s: float = opt("Give up after this time; default 5min.", 300.0, parse=seconds)
