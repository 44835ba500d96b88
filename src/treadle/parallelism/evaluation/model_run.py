"""A plan of a whole model taken apart: which plan each layer runs under, and what a rank holds throughout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from treadle.parallelism.evaluation.memory_at_moments import Held, Moment, moments, saved
from treadle.parallelism.evaluation.part_run import PartRun
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.fit import check_fit
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.refusal import Refusal


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
        """By part and plan."""
        for at, chosen in dict.fromkeys(self.layers):
            part = model.parts[at]
            own = plan.parts[part.name][chosen]
            self.runs[at, chosen] = PartRun(part, own, own.boundary or plan.boundary, self.sizes)

    def faults(self) -> Iterator[Refusal]:
        """Why the plan computes something else than the model."""
        for (part, chosen), run in self.runs.items():
            name = self.model.parts[part].name
            number = f" plan {chosen}" if len(self.plan.parts[name]) > 1 else ""
            for fault in run.faults():
                yield Refusal(fault.reason, f"{name}{number}: {fault.place}")

    def stored_elements(self, key: tuple[int, int]) -> int:
        """Elements of a run's parameters at a rank; what is shared with an earlier part is stored there."""
        run = self.runs[key]
        return sum(
            run.graph.elements(tensor) // run.stored(tensor).n_shards(self.sizes)
            for path, tensor in run.part.parameters.items()
            if (run.part.name, path) not in self._stored_elsewhere
        )

    def entering_bytes(self, key: tuple[int, int]) -> int:
        """Bytes of the activations that enter a run, at a rank; 0 where nothing does."""
        run = self.runs[key]
        enters = run.part.enters
        return 0 if enters is None else run.local_bytes(enters, run.stored(enters))

    def moments(self, stored_bytes: int) -> Iterator[Moment]:
        """Every operator of every plan, with all that is held then.

        Parameters
        ----------
        stored_bytes : int
            Per parameter.
        """
        for key, run in self.runs.items():
            throughout = self._throughout(key, stored_bytes)
            for one in moments(run):
                contents = sorted((*throughout, *one.contents), key=lambda held: -held.n_bytes)
                yield Moment(one.part, one.phase, one.node, tuple(held for held in contents if held.n_bytes))

    def _throughout(self, key: tuple[int, int], stored_bytes: int) -> list[Held]:
        """What a rank holds while the last layer of a plan runs: all that was saved until then."""
        last = max(at for at, one in enumerate(self.layers) if one == key)
        stage, in_flight = self._stage_of(last)
        found: Counter[tuple[str, str]] = Counter()
        for own in dict.fromkeys(self.layers[at] for at in stage):  # layers of one plan hold the same
            places = [at for at in stage if self.layers[at] == own]
            name = self.runs[own].part.name
            parameters = self.stored_elements(own) * stored_bytes
            found["parameters, gradients and optimizer", name] += len(places) * parameters
            found["between layers", name] += len(places) * in_flight * self.entering_bytes(own)
            n_kept = sum(in_flight - (at > last) for at in places)
            for held in saved(self.runs[own]):
                found["saved", f"{name}/{held.tensor}"] += n_kept * held.n_bytes
        return [Held(why, tensor, n_bytes) for (why, tensor), n_bytes in found.items()]

    def _stage_of(self, at: int) -> tuple[range, int]:
        """Layers of the stage that a layer is on, and how many micro-batches it keeps at once (1F1B)."""
        pipeline, start = self.plan.pipeline, 0
        if pipeline is None:
            return range(len(self.layers)), 1
        for stage, count in enumerate(pipeline.layers):
            if at < start + count:
                in_flight = min(pipeline.micro_batches, len(pipeline.layers) - stage)
                return range(start, start + count), in_flight
            start += count
        raise AssertionError("stages have all layers")
