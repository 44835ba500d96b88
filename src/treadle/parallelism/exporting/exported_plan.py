"""Plans as code and settings of other frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.brief import brief
from treadle.checking import checked, left_alone
from treadle.errors import FormatError
from treadle.parallelism.exporting.export_layout import layout_of
from treadle.parallelism.exporting.torch_code import torch_code, unsaid
from treadle.parallelism.exporting.torchtitan import torchtitan_settings, unsaid_by_settings
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.plan_json import read_plan
from treadle.unsupported import Unsupported

EXPORTS = ("torch", "torchtitan")


@brief("kind", "lost")
@dataclass(frozen=True)
class ExportedPlan:
    """A plan in the words of a framework.

    Parameters
    ----------
    kind : str
        One of `EXPORTS`.
    text : str
        Python, or TOML.
    lost : tuple of Refusal
        What the plan says and the text does not.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> plan = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2").plan
    >>> text = planning.export_plan(plan, words)
    >>> text.kind, text.lost
    ('torch', ())
    """

    kind: str
    text: str
    lost: tuple[Unsupported, ...]


@checked(plan=left_alone)
def export_plan(plan: ParallelPlan | str | Path, model: ModelGraph, *, to: str = "torch") -> ExportedPlan:
    """Write a plan for another framework.

    Parameters
    ----------
    plan : ParallelPlan, str or Path
        Or its file.
    model : ModelGraph
        That the plan is for, as `capture` gives it: its paths are the module's.
    to : str
        ``torch``: Python with `parallelize_module`, `fully_shard` and a policy of checkpoints;
        ``torchtitan``: sections of its settings.

    Raises
    ------
    InfeasibleError
        If the framework has no words for the plan's structure.
    TreadleError
        If the plan is of another model.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> plan = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2").plan
    >>> code = planning.export_plan(plan, words).text
    >>> [line for line in code.splitlines() if line.startswith("def p")]
    ['def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:']
    """
    if to not in EXPORTS:
        raise FormatError(f"export to {to[:40]!r}; expected {' or '.join(EXPORTS)}")
    known = plan if isinstance(plan, ParallelPlan) else read_plan(str(plan))
    layout = layout_of(known, model)
    if to == "torch":
        return ExportedPlan(to, torch_code(layout), unsaid(layout))
    return ExportedPlan(to, torchtitan_settings(layout, known), unsaid_by_settings(layout))
