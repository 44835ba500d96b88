"""A plan of a whole model taken apart: which plan each layer runs under, and what a rank holds throughout."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import accumulate

from treadle.parallelism.evaluation.memory_at_moments import Held, Moment, moments, saved
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.part_run import PartRun
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.fit import check_fit
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.training.forms.pipeline_parallel import stage_order
from treadle.unsupported import Unsupported


class ModelRun:
    """A model under a plan.

    Parameters
    ----------
    plan : ParallelPlan
    model : ModelGraph

    Raises
    ------
    ScheduleError
        If the plan is of another model (`check_fit`).
    """

    def __init__(self, plan: ParallelPlan, model: ModelGraph) -> None:
        check_fit(plan, model)
        self.plan, self.model, self.sizes = plan, model, plan.sizes
        self._stored_elsewhere = {tie.second for tie in model.ties}
        choices = {at: iter(plan.layers.get(part.name, ())) for at, part in enumerate(model.parts)}
        self.layers = [(part, next(choices[part], 0)) for part in model.order]
        """Part and plan of each layer."""
        self.runs: dict[tuple[int, int], PartRun] = {}
        """Runs by part and plan."""
        for at, chosen in dict.fromkeys(self.layers):
            part = model.parts[at]
            own = plan.parts[part.name][chosen]
            self.runs[at, chosen] = PartRun(part, own, own.boundary or plan.boundary, self.sizes)

    def faults(self) -> Iterator[Unsupported]:
        """Yield the reasons why the plan computes something else than the model."""
        for (part, chosen), run in self.runs.items():
            name = self.model.parts[part].name
            number = f" plan {chosen}" if len(self.plan.parts[name]) > 1 else ""
            for fault in run.faults():
                yield Unsupported(fault.reason, f"{name}{number}: {fault.place}")

    def stored_elements(self, key: tuple[int, int], *, everywhere: bool = False) -> int:
        """Return the elements of a run's parameters at a rank, of those that no earlier part stores.

        Parameters
        ----------
        key : (int, int)
            Part and plan.
        everywhere : bool
            Sharded over all ranks of a stage.
        """
        run = self.runs[key]
        return sum(
            run.graph.elements(tensor)
            // (self.plan.n_ranks_of_stage if everywhere else run.stored(tensor).n_shards(self.sizes))
            for path, tensor in run.part.parameters.items()
            if (run.part.name, path) not in self._stored_elsewhere
        )

    def updated_elements(self, key: tuple[int, int]) -> int:
        """Return the elements of a run's parameters that a rank's optimizer updates."""
        return self.stored_elements(key, everywhere=self.plan.zero > 0)

    def entering_bytes(self, key: tuple[int, int]) -> int:
        """Return the bytes of the activations that enter a run, at a rank; 0 where nothing does."""
        run = self.runs[key]
        enters = run.part.enters
        return 0 if enters is None else run.local_bytes(enters, run.stored(enters))

    def moments(self, numbers: DeviceNumbers) -> Iterator[Moment]:
        """Yield every operator of every plan, with all that is held then."""
        for key, run in self.runs.items():
            throughout = self._throughout(key, numbers)
            for one in moments(run):
                contents = sorted((*throughout, *one.contents), key=lambda held: -held.n_bytes)
                yield Moment(one.part, one.phase, one.node, tuple(held for held in contents if held.n_bytes))

    def _throughout(self, key: tuple[int, int], numbers: DeviceNumbers) -> list[Held]:
        """Return the memory of a rank while the last layer of a plan runs: all that was saved until then."""
        last = max(at for at, one in enumerate(self.layers) if one == key)
        in_flight = self._in_flight(last)
        spread = numbers.spread_bytes[self.plan.zero]
        found: Counter[tuple[str, str]] = Counter()
        for own in dict.fromkeys(self.layers[at] for at in in_flight):  # layers of one plan hold the same
            places = [at for at in in_flight if self.layers[at] == own]
            name = self.runs[own].part.name
            parameters = self.stored_elements(own) * (numbers.stored_bytes - spread)
            parameters += self.stored_elements(own, everywhere=True) * spread
            found["parameters, gradients and optimizer", name] += len(places) * parameters
            n_entered = sum(in_flight[at] for at in places)
            found["between layers", name] += n_entered * self.entering_bytes(own)
            n_kept = sum(in_flight[at] - (at > last) for at in places)
            for held in saved(self.runs[own]):
                found["saved", f"{name}/{held.tensor}"] += n_kept * held.n_bytes
        return [Held(why, tensor, n_bytes) for (why, tensor), n_bytes in found.items()]

    def _in_flight(self, at: int) -> dict[int, int]:
        """Return, of the layers of a layer's stage, how many micro-batches each keeps at most."""
        pipeline = self.plan.pipeline
        if pipeline is None:
            return dict.fromkeys(range(len(self.layers)), 1)
        ends, stages = [0, *accumulate(pipeline.layers)], pipeline.stages
        stage = (bisect(ends, at) - 1) % stages
        most = _most_in_flight(stage, stages, pipeline.micro_batches, pipeline.interleave)
        return {
            layer: n for piece, n in enumerate(most) for layer in range(*ends[piece * stages + stage :][:2])
        }


@cache
def _most_in_flight(stage: int, stages: int, micro_batches: int, interleave: int) -> tuple[int, ...]:
    """Return the micro-batches that each virtual stage holds when its stage holds most."""
    kept, most = [0] * interleave, [0] * interleave
    for visit in stage_order(stage, stages, micro_batches, interleave):
        kept[visit.chunk // stages] += 1 if visit.is_forward else -1
        if sum(kept) > sum(most):
            most = list(kept)
    return tuple(most)
