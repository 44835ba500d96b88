"""Presets, simulated as plans and as the layouts of `train` that say the same of them.

Left out of the test are presets by which plans do otherwise than `train`: selective recomputation, whose
pointwise work is no layout's; full recomputation without a block's last product; HSDP whose gathers pass
through faster axes; CP, whose keys are gathered again beside attention; and EP, whose tokens are gathered. A
table of many models, fabrics and pipelines, with the parts of a step in percent of it:
``PYTHONPATH=tests python -m parallelism.evaluation.test_train_agreement``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from treadle.errors import TreadleError
from treadle.inputs.problem import resolve_topology
from treadle.parallelism.evaluation.resimulation import Resimulated
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.search.branching import NAMED_EFFORT, minimise
from treadle.parallelism.search.minimax import step_time
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.parallel_result import PricedPlan
from treadle.parallelism.searching.pipeline_run import inner_mesh, staged
from treadle.parallelism.searching.plan_search import STAGES, PipelineForm, PlanSearch
from treadle.schedules.mesh import Mesh

TOLERANCE = 0.01
FLAT, PIPELINE = Mesh((2, 8), ("0", "1")), Mesh((2, 8), (STAGES, "1"))


@dataclass(frozen=True)
class Setting:
    """A model on a mesh of a fabric; sequences of a step for each rank."""

    model: str = "llama-3-8b"
    fabric: str = "dgx_h100(2)"
    mesh: Mesh = FLAT
    form: PipelineForm = PipelineForm()  # noqa: RUF009
    sequence: int = 8192
    sequences: int = 2


def timed(setting: Setting, *wanted: str) -> Iterator[tuple[str, PricedPlan, Resimulated]]:
    """Yield presets, all of them by default, that `train` has a layout for."""
    tokens = setting.sequences * setting.mesh.n_ranks * setting.sequence
    graph, layers = as_model_graph(
        setting.model,
        tokens=tokens,
        sequence=setting.sequence,
        notes=[],
        micro_batches=setting.form.micro_batches,
    )
    plans = PlanSearch(graph, parallel_request("h100", tokens, {"zero": 0}), layers)
    run = FabricRun(resolve_topology(setting.fabric), plans, {"schedule": "ring"})
    costs = run.costs(setting.mesh)
    posed = plans.make_problem(inner_mesh(setting.mesh), costs, setting.form)
    problem = posed.problem
    for name, domains in problem.named().items():
        if wanted and name not in wanted:
            continue
        labels = minimise(problem.graph, step_time(problem.graph), within=domains, effort=NAMED_EFFORT).plan
        assert labels is not None
        bare = problem.decode(problem.tidied(labels))
        plan = staged(plans, bare, setting.mesh, costs, setting.form)
        other = plans.resimulated(plan, costs)
        if isinstance(other, Resimulated) and not other.layout.left_out:
            yield name, plans.priced(name, plan, costs), other


@pytest.mark.parametrize(
    ("setting", "presets"),
    [
        (Setting(), ["DP", "FSDP", "HSDP 1", "TP 0 x DP 1", "TP 1 x DP 0", "TP 0 x FSDP 1"]),
        (Setting(mesh=PIPELINE, form=PipelineForm(2, 8), sequences=4), ["DP", "FSDP", "TP"]),
        (Setting(mesh=PIPELINE, form=PipelineForm(2, 8, 2), sequences=4), ["DP"]),
    ],
    ids=["flat", "stages", "interleaved"],
)
def test_a_preset_takes_what_train_says(setting: Setting, presets: list[str]) -> None:
    found = list(timed(setting, *presets))
    assert [name for name, _, _ in found] == presets
    for name, mine, other in found:
        assert mine.seconds == pytest.approx(float(other.outcome.iteration_s), rel=TOLERANCE), name


SETTINGS = [
    Setting(),
    Setting(fabric="torus(4, 4, bandwidth='50GB/s')", mesh=Mesh((4, 4), ("0", "1"))),
    *(Setting(mesh=PIPELINE, form=PipelineForm(2, 8, pieces), sequences=4) for pieces in (1, 2)),
    Setting(mesh=Mesh((4, 4), (STAGES, "1")), form=PipelineForm(4, 16), sequences=4),
    Setting("mixtral-8x7b", sequence=4096, sequences=4),
    Setting("mixtral-8x7b", mesh=PIPELINE, form=PipelineForm(2, 4), sequence=4096, sequences=4),
    Setting("llama-3-70b", "dgx_h100(16)", Mesh((16, 8), ("0", "1"))),
    Setting("llama-3-70b", "dgx_h100(16)", Mesh((4, 4, 8), (STAGES, "0", "1")), PipelineForm(4, 8)),
]


def _print_table() -> None:
    """Print steps in ms, and differences in percent of that of `train`."""
    for setting in SETTINGS:
        form = f"{setting.form.micro_batches} micro-batches, interleave {setting.form.interleave}"
        print(f"\n{setting.model} on {setting.fabric}, {setting.mesh.notation}, {form}")
        print(f"{'preset':36} {'train':16} {'plan':>8} {'train':>8} {'step':>7} compute exposed   idle")
        try:
            for name, mine, other in timed(setting):
                out = other.outcome
                whole, compute, idle = map(
                    float, (out.iteration_s, out.compute_s + out.contention_s, out.idle_s)
                )
                pairs = (
                    (mine.seconds, whole),
                    (mine.compute_s, compute),
                    (mine.exposed_s, whole - compute - idle),
                    (mine.idle_s, idle),
                )
                cells = " ".join(f"{100 * (one - two) / whole:+7.2f}" for one, two in pairs)
                print(f"{name:36} {other.mesh:16} {1e3 * mine.seconds:8.1f} {1e3 * whole:8.1f} {cells}")
        except TreadleError as error:
            print(error)


if __name__ == "__main__":
    _print_table()
