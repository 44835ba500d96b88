"""A plan as frameworks see one: a use for each axis of the mesh, a style for each weight, what is recomputed.

A plan gives every tensor a state of its own. PyTorch's `parallelize_module` and `fully_shard`, and torchtitan
after them, know data, tensor, context and pipeline parallelism along whole axes, and recomputation within a
block. This module reads the plan so far as it says that, and lists everything else that it says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain

from treadle.errors import InfeasibleError
from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Index,
    Node,
    OperatorKind,
    Phase,
    TensorRef,
    factors,
)
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.fit import check_fit
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, OperatorPlan, PartPlan, sides
from treadle.parallelism.state.sharding import Sharding
from treadle.unsupported import Unsupported


class WeightUse(Enum):
    """Use of a mesh axis."""

    REPLICATED = "data parallel, parameters replicated"
    SHARDED = "data parallel, parameters sharded"
    TENSOR = "tensor parallel"
    CONTEXT = "context parallel"
    PIPELINE = "pipeline"
    NONE = "nothing"


class CutStyle(Enum):
    """Sharding of a weight along the tensor-parallel axis."""

    COLUMNS = "ColwiseParallel"
    ROWS = "RowwiseParallel"


class RecomputeSetting(Enum):
    """Recomputed part of the forward pass."""

    NONE = "none"
    SOME = "selective"
    ALL = "full"


@dataclass(frozen=True)
class ExportedWeight:
    """A parameter.

    Parameters
    ----------
    path : str
        Its name in the module; ``*`` or a slice for all layers.
    is_table : bool
        Read by index, as an embedding's.
    style : Style or None
    shard_dim : int
        The dimension that data-parallel ranks store a part of.
    is_gathered : bool
        Of columns: what it makes does not go on in parts, to rows of another weight alone.
    is_given_whole : bool
        Of rows: what it takes does not come in parts, from columns of other weights alone.
    """

    path: str
    is_table: bool
    style: CutStyle | None
    shard_dim: int
    is_gathered: bool = False
    is_given_whole: bool = False


@dataclass(frozen=True)
class PartLayout:
    """A part of the model.

    Parameters
    ----------
    name : str
    repeats : int
    weights : tuple of Weight
    recompute : Recompute
    saved_products : tuple of bool
        Of each matrix product of the forward pass, in order: kept for the backward pass.
    saves_attention : bool
    """

    name: str
    repeats: int
    weights: tuple[ExportedWeight, ...]
    recompute: RecomputeSetting
    saved_products: tuple[bool, ...]
    saves_attention: bool


@dataclass(frozen=True)
class ExportLayout:
    """A plan in these terms.

    Parameters
    ----------
    model : str
    axes : mapping from axis to (ranks, Use)
        In the order of the mesh.
    cuts_sequence : bool
        Between blocks the tensor-parallel axis cuts the sequence.
    gathers_again : bool
        Sharded parameters are gathered in the backward pass once more.
    parts : tuple of PartLayout
    lost : tuple of Unsupported
        What the plan says beyond that.
    """

    model: str
    axes: Mapping[str, tuple[int, WeightUse]]
    cuts_sequence: bool
    gathers_again: bool
    parts: tuple[PartLayout, ...]
    lost: tuple[Unsupported, ...]

    def of_use(self, use: WeightUse) -> tuple[str, ...]:
        """Return the axes of a use."""
        return _of_use(self.axes, use)


def _of_use(axes: Mapping[str, tuple[int, WeightUse]], *uses: WeightUse) -> tuple[str, ...]:
    return tuple(name for name, (_, use) in axes.items() if use in uses)


_HEAVY = (OperatorKind.EINSUM, OperatorKind.ATTENTION)


def layout_of(plan: ParallelPlan, model: ModelGraph) -> ExportLayout:
    """Read a plan.

    Raises
    ------
    ScheduleError
        If the plan is of another model.
    InfeasibleError
        If an axis has no such use, or layers of one part differ: nothing of the plan's structure is left.
    """
    check_fit(plan, model)
    for name, plans in plan.parts.items():
        if len(plans) > 1:
            raise InfeasibleError(
                f"export: layers of {name} have {len(plans)} plans; frameworks have one for all layers"
            )
    return _Reading(plan, model).layout()


class _Reading:
    def __init__(self, plan: ParallelPlan, model: ModelGraph) -> None:
        self.plan, self.model = plan, model
        self.parts = [(part, plan.parts[part.name][0]) for part in model.parts]
        self.lost: list[Unsupported] = []

    def layout(self) -> ExportLayout:
        mesh = self.plan.mesh
        axes = {name: (n, self._use(name)) for name, n in zip(mesh.axis_names, mesh.shape, strict=True)}
        tensor = _of_use(axes, WeightUse.TENSOR)
        if len(tensor) > 1:
            raise InfeasibleError(
                f"export: axes {' and '.join(tensor)} both cut weights; frameworks have one tensor-parallel "
                "axis"
            )
        cuts_sequence = bool(tensor) and self._boundary_letters().get(tensor[0]) == self.model.sequence != ""
        parts = tuple(self._part(part, one, axes) for part, one in self.parts)
        for part, one in self.parts:
            chunks = [op.chunk for op in one.operators.values() if op.chunk is not None]
            for chunk in {chunk.of_loop: chunk for chunk in reversed(chunks)}.values():
                self._lose(part.name, f"a loop over {chunk.n_chunks} chunks of {chunk.letter}")
        replicas = _of_use(axes, WeightUse.REPLICATED)
        if self.plan.zero and replicas:
            what = "optimizer states" if self.plan.zero == 1 else "gradients and optimizer states"
            self._lose(
                "optimizer",
                f"{what} are sharded along {', '.join(replicas)} (ZeRO-{self.plan.zero}): wrap the optimizer "
                f"in torch.distributed.optim.ZeroRedundancyOptimizer",
            )
        # whether no parameter is saved for the backward pass in another state than it is stored in
        gathers_again = not any(
            one.saved(part.graph.spelled(tensor)) not in (None, one.parameters[path])
            for part, one in self.parts
            for path, tensor in part.parameters.items()
        )
        return ExportLayout(self.model.name, axes, cuts_sequence, gathers_again, parts, tuple(self.lost))

    def _lose(self, place: str, reason: str) -> None:
        self.lost.append(Unsupported(reason, place))

    def _boundary_letters(self) -> dict[str, str]:
        """Return the dimension of the activations between blocks that each axis shards."""
        part = next((part for part, _ in self.parts if part.leaves is not None), None)
        names = [] if part is None or part.leaves is None else [name for name, _ in part.factors(part.leaves)]
        dims = zip(names, self.plan.boundary.activation.dims, strict=False)
        return {axis: name for name, axes in dims for axis in axes}

    def _use(self, axis: str) -> WeightUse:
        if self.plan.pipeline is not None and axis == self.plan.pipeline.axis:
            return WeightUse.PIPELINE
        if axis not in self.plan.sizes:
            return WeightUse.NONE
        places: dict[str, list[str]] = defaultdict(list)
        cuts_weights = False
        for part, one in self.parts:
            for node in part.graph.nodes:
                if node.kind in _HEAVY:
                    plan = one.operators[node.name]
                    places[_cut_letter(part.graph, node, plan, axis)].append(f"{part.name}: {node.name}")
                    cuts_weights |= any(
                        axis in state.axes and operand.tensor in part.parameters.values()
                        for operand, state in zip(node.operands, plan.inputs, strict=True)
                    )
        counts = Counter({letter: len(some) for letter, some in places.items()})
        for letter, use in ((self.model.batch, None), (self.model.sequence, WeightUse.CONTEXT)):
            if letter and counts[letter] * 2 > counts.total():
                for place in chain.from_iterable(some for other, some in places.items() if other != letter):
                    self._lose(place, f"not cut along {axis} as the rest is")
                return use or self._data_use(axis)
        if cuts_weights:
            return WeightUse.TENSOR
        if counts[""] == counts.total():
            return self._data_use(axis) if self._stores(axis) else WeightUse.NONE
        most = max(counts, key=lambda letter: counts[letter])
        raise InfeasibleError(
            f"export: along {axis} products are cut by {most or 'nothing'} and others; expected samples, "
            "tokens or weights along a whole axis"
        )

    def _stores(self, axis: str) -> int:
        """Return the elements of parameters that are stored in parts along an axis."""
        return sum(
            part.graph.elements(tensor)
            for part, one in self.parts
            for path, tensor in part.parameters.items()
            if axis in one.parameters[path].axes
        )

    def _data_use(self, axis: str) -> WeightUse:
        everything = sum(part.parameter_elements for part, _ in self.parts)
        return WeightUse.SHARDED if 2 * self._stores(axis) > everything else WeightUse.REPLICATED

    def _part(self, part: ModelPart, one: PartPlan, axes: Mapping[str, tuple[int, WeightUse]]) -> PartLayout:
        weights = [self._weight(part, one, path, axes) for path in part.parameters]
        forward = [
            (node, one.operators[node.name].keep)
            for node in part.graph.nodes
            if node.computes and node.phase is Phase.FORWARD
        ]
        keeps = {keep for _, keep in forward}
        kept = [(node.kind, keep is not ActivationPolicy.RECOMPUTED) for node, keep in forward]
        products = tuple(is_kept for kind, is_kept in kept if kind is OperatorKind.EINSUM)
        attention = all(is_kept for kind, is_kept in kept if kind is OperatorKind.ATTENTION)
        recompute = RecomputeSetting.ALL if ActivationPolicy.RECOMPUTED in keeps else RecomputeSetting.NONE
        if {ActivationPolicy.RECOMPUTED, ActivationPolicy.SAVED} <= keeps:
            recompute = RecomputeSetting.SOME
            for node, keep in forward:
                if node.kind not in _HEAVY and keep is ActivationPolicy.SAVED:
                    reason = "is kept for the backward pass; a policy by operator computes it again"
                    self._lose(f"{part.name}: {node.name}", reason)
        for tensor in part.graph.tensors():
            saved, node = one.saved(part.graph.spelled(tensor)), part.graph.nodes[tensor.node]
            if saved is not None and node.computes:
                made = one.operators[node.name].outputs[tensor.slot]
                if saved != made:
                    self._lose(f"{part.name}: {node.name}", f"is kept as {saved}, but made as {made}")
        columns, rows = (
            {weight.path for weight in weights if weight.style is style and not weight.is_table}
            for style in CutStyle
        )
        together = in_parts(next_weights(part), columns, rows)
        alone = columns - together, rows - together
        paired = tuple(
            replace(weight, is_gathered=weight.path in alone[0], is_given_whole=weight.path in alone[1])
            for weight in weights
        )
        return PartLayout(part.name, part.repeats, paired, recompute, products, attention)

    def _weight(
        self, part: ModelPart, one: PartPlan, path: str, axes: Mapping[str, tuple[int, WeightUse]]
    ) -> ExportedWeight:
        graph, stored, tensor = part.graph, one.parameters[path], part.parameters[path]
        readers = [
            (node.kind, operand.dims, state.dims)
            for node in graph.nodes
            if node.computes and node.phase is Phase.FORWARD
            for operand, state in zip(node.operands, one.operators[node.name].inputs, strict=True)
            if operand.tensor == tensor
        ]
        is_table = any(kind is OperatorKind.GATHER for kind, _, _ in readers)
        is_product = is_table or any(kind is OperatorKind.EINSUM for kind, _, _ in readers)
        place = f"{part.name}: {path}"
        style = None
        for axis in _of_use(axes, WeightUse.TENSOR):
            cut_dims = {
                _dim_of(graph, tensor, index)
                for _, dims, cuts in readers
                for index, names in zip(factors(dims), cuts, strict=True)
                if axis in names
            }
            if cut_dims and not is_product:
                # the styles of modules are for products and tables: norms take their input whole
                self._lose(place, f"is cut along {axis}; the code takes it whole")
            elif len(cut_dims) == 1:
                style = CutStyle.COLUMNS if (cut_dims == {0}) != is_table else CutStyle.ROWS
            if style is not None and not self._is_outermost(graph, tensor, stored, axis):
                self._lose(place, f"is not stored along {axis} as runs of whole rows or columns ({stored})")
        shard_dims = set()
        for axis in _of_use(axes, WeightUse.SHARDED):
            cut = [
                _dim_of(graph, tensor, index)
                for index, names in zip(graph.factors(tensor), stored.dims, strict=True)
                if axis in names
            ]
            shard_dims.update(cut)
            if not cut:
                self._lose(place, f"is replicated along {axis}; fully_shard shards it")
        if len(shard_dims) > 1:
            self._lose(place, "is sharded over several dimensions; fully_shard takes one")
        for axis in _of_use(axes, WeightUse.REPLICATED, WeightUse.CONTEXT):
            if axis in stored.axes:
                self._lose(place, f"is sharded along {axis}, which others replicate over")
        return ExportedWeight(path, is_table, style, min(shard_dims, default=0))

    @staticmethod
    def _is_outermost(graph: ComputeGraph, tensor: TensorRef, stored: Sharding, axis: str) -> bool:
        """Whether an axis cuts a dimension into runs: the first of its outermost long factor."""
        states = iter(stored.dims)
        for dim in graph.result(tensor).dims:
            long = [index for index in dim if graph.size(index) > 1]
            for index in dim:
                if axis in (names := next(states)):
                    return index in long[:1] and names[0] == axis
        return False


def _cut_letter(graph: ComputeGraph, node: Node, plan: OperatorPlan, axis: str) -> str:
    """Return the dimension that an axis shards of an operator; "" if none."""
    cuts = (
        cut for side, state in sides(node, plan) for cut in zip(factors(side.roles), state.dims, strict=True)
    )
    return next((graph.dim_name(role) for role, axes in cuts if axis in axes), "")


def _dim_of(graph: ComputeGraph, tensor: TensorRef, index: Index) -> int:
    return next(n for n, dim in enumerate(graph.result(tensor).dims) if index in dim)


def next_weights(part: ModelPart) -> dict[str, frozenset[str]]:
    """Return for each weight's path the paths of the next products of the forward pass.

    Attention and whatever has no weight of its own lies between; norms, whose weights are not in products,
    too.
    """
    graph = part.graph
    path_of = {tensor: path for path, tensor in part.parameters.items()}
    found: dict[str, set[str]] = {}
    behind: dict[int, set[str]] = {}  # by node the weights that it comes from without another between
    for number, node in enumerate(graph.nodes):
        if node.phase is Phase.FORWARD and node.kind is not OperatorKind.OUTPUT:
            read = [operand.tensor for operand in node.operands]
            behind[number] = set().union(*(behind.get(tensor.node, ()) for tensor in read))
            paths = [path_of[tensor] for tensor in read if tensor in path_of]
            if paths and node.kind is OperatorKind.EINSUM:
                for source in behind[number]:
                    found[source].add(paths[0])
                found.setdefault(paths[0], set())
                behind[number] = {paths[0]}
    return {path: frozenset(paths) for path, paths in found.items()}


def in_parts(following: Mapping[str, frozenset[str]], columns: set[str], rows: set[str]) -> frozenset[str]:
    """Return the weights between which tensors stay in parts: columns that only rows follow, and those rows.

    Parameters
    ----------
    following : mapping from path to paths
    columns, rows : set of str
        Weights that are cut so.
    """
    before = {row: {path for path, paths in following.items() if row in paths} for row in rows}
    left = columns | rows
    while True:
        first, second = left & columns, left & rows
        right = {path for path in first if following.get(path) and following[path] <= second}
        right |= {path for path in second if before[path] and before[path] <= first}
        if right == left:
            return frozenset(left)
        left = right
