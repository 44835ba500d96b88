"""One operator at one rank: the captured call on the rank's parts of its operands.

Of each role the plan says which axes cut it; sizes among the arguments shrink with them. A role that is read
or written by index (rows of an embedding, the halves that a slice takes) is made whole around the call: the
operand is filled up with zeros, or the rank keeps its own part of the result, so that indices stay as they
were captured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from treadle.errors import ScheduleError, TreadleError
from treadle.parallelism.execution.tensor_blocks import BlockPosition, block
from treadle.parallelism.graph.compute_graph import (
    ComputeGraph,
    Dims,
    Index,
    Node,
    OperatorKind,
    factors,
)
from treadle.parallelism.plan.part_plan import OperatorPlan, sides
from treadle.parallelism.state.sharding import Sharding

if TYPE_CHECKING:
    from torch import Tensor

Cuts = dict[Index, tuple[str, ...]]
"""Axes that shard each role, the outermost first."""
_RANDOM = ("native_dropout", "bernoulli", "rand_like", "rand", "randn")
_BY_INDEX = ("scatter", "scatter_add", "index_put", "index_add")
"""Operators that write a role of their first operand by index."""
_SIZED = {
    "full": "size", "zeros": "size", "ones": "size", "empty": "size", "new_zeros": "size", "new_ones": "size",
    "new_empty": "size", "new_full": "size",
    "slice_backward": "input_sizes", "select_backward": "input_sizes",
}  # fmt: skip
"""Arguments that are the result's shape."""
_LIKE = {"full_like": "full", "zeros_like": "zeros", "ones_like": "ones", "empty_like": "zeros"}

ADDED_IN_PLACE = {"mm": "addmm_", "bmm": "baddbmm_"}
"""Products, and the methods that add them to a tensor."""


def cuts_of(node: Node, plan: OperatorPlan) -> Cuts:
    """Return the axes that cut each role.

    Raises
    ------
    ScheduleError
        If states do not fit the node's tensors, or cut a role in two ways.
    """
    found: Cuts = {}
    if (len(plan.inputs), len(plan.outputs)) != (len(node.operands), len(node.results)):
        raise ScheduleError(f"plan of {node.name}: expected states of {len(node.operands)} operands")
    for side, sharding in sides(node, plan):
        roles = factors(side.roles)
        if len(roles) != len(sharding.dims):
            raise ScheduleError(f"plan of {node.name}: {sharding} for {len(roles)} factors")
        for role, axes in zip(roles, sharding.dims, strict=True):
            if found.setdefault(role, axes) != axes:
                raise ScheduleError(
                    f"plan of {node.name}: one role is cut by {','.join(found[role]) or 'nothing'} and by "
                    f"{','.join(axes) or 'nothing'}"
                )
    return found


class LocalOperator:
    """A node as one rank runs it.

    Parameters
    ----------
    graph : ComputeGraph
    node : Node
    plan : OperatorPlan
    place : Place
    chunk : (Index, int), optional
        A role of which operands and results hold one of `parts` equal parts.

    Raises
    ------
    TreadleError
        If the node cannot be run: it draws random numbers, or was not captured from PyTorch.
    """

    def __init__(
        self,
        graph: ComputeGraph,
        node: Node,
        plan: OperatorPlan,
        place: BlockPosition,
        chunk: tuple[Index, int] | None = None,
    ) -> None:
        if not node.operator.startswith("aten.") and not node.arguments:
            raise TreadleError(
                f"execution: {node.name} was not captured; expected a graph of `treadle capture`"
            )
        self.name = node.operator.removeprefix("aten.").partition(".")[0]
        if self.name in _RANDOM and node.arguments.get("p") not in (0, 0.0):
            raise TreadleError(f"execution: {node.operator} draws random numbers, which ranks do not share")
        self.graph, self.node, self.place, self.chunk = graph, node, place, chunk
        self.cuts = cuts_of(node, plan)
        # roles that operands are repeated over, and no result has, are sharded where results are partial
        taken = {axis for one in plan.inputs for axis in (*one.axes, *one.partial)}
        left = [axis for axis in place.sizes if axis not in taken and plan.outputs]
        left = [axis for axis in left if all(axis in one.partial for one in plan.outputs)]
        for role in dict.fromkeys(_called_roles(list(node.arguments.values()))):
            if role not in self.cuts:
                fits = [axis for axis in left if graph.size(role) % place.sizes[axis] == 0][:1]
                self.cuts[role], left = tuple(fits), [axis for axis in left if axis not in fits]
        self.whole: set[Index] = set()
        """Cut roles that must be whole around the call."""
        if node.kind in (OperatorKind.GATHER, OperatorKind.SCATTER):
            read = Counter(role for operand in node.operands for role in factors(operand.roles))
            made = set(node.result_roles)
            lonely = {role for role, n in read.items() if n == 1 and role not in made} | (made - set(read))
            if self.name in _BY_INDEX:
                lonely |= set(factors(node.operands[0].roles)) - self._later_roles
            self.whole = {role for role in lonely if self.cuts.get(role)}

    @property
    def _later_roles(self) -> set[Index]:
        return {role for operand in self.node.operands[1:] for role in factors(operand.roles)}

    def size(self, role: Index) -> int:
        """Return the elements of a role in the call."""
        whole = self.graph.size(role)
        if role not in self.whole:
            whole //= prod(self.place.sizes[axis] for axis in self.cuts.get(role, ()))
        return whole // self.chunk[1] if self.chunk is not None and role == self.chunk[0] else whole

    def _own(self, role: Index) -> slice:
        """Return the rank's part of a role that is whole in the call."""
        state, shape = Sharding((self.cuts.get(role, ()),)), (self.graph.size(role),)
        return block(state, shape, self.place.sizes, self.place.at)[0]

    def run(self, operands: Sequence[Tensor], into: Tensor | None = None) -> list[Tensor]:
        """Return results, by factors of ``result.dims``, from operands, by those of ``operand.dims``.

        ``into`` is a sum that the result of a matrix product is added to where it lies, and is given back.
        """
        import torch

        given = []
        for operand, local in zip(self.node.operands, operands, strict=True):
            if not self.whole.isdisjoint(factors(operand.roles)):
                # zeros where other ranks have rows that are read by index
                filled = local.new_zeros([self.size(role) for role in factors(operand.roles)])
                filled[self._own_part(operand.roles)] = local
                local = filled
            given.append(local)
        name = self.node.operator
        arguments = {key: self._value(value, given) for key, value in self.node.arguments.items()}
        if self.name in _LIKE:
            name = f"aten.{_LIKE[self.name]}.default"
            arguments = {k: v for k, v in arguments.items() if k in ("dtype", "layout", "fill_value")}
            arguments["size"] = self._called_shape(self.node.results[0].roles)
        self._localise(arguments)
        if self.node.kind is OperatorKind.ATTENTION:
            self._mask(arguments)
        elif self.name in _BY_INDEX:
            # count the written tensor once, where ranks hold parts of the values
            roles = self._later_roles - set(factors(self.node.operands[0].roles))
            if any(self.place.at[axis] for role in roles for axis in self.cuts.get(role, ())):
                arguments["self"] = arguments["self"] * 0
        target: Any = torch.ops
        for word in name.split("."):
            target = getattr(target, word)
        schema = [one.name for one in target._schema.arguments if not one.kwarg_only]
        positional = []
        while schema and schema[0] in arguments:
            positional.append(arguments.pop(schema.pop(0)))
        if into is not None and self.name in ADDED_IN_PLACE:
            sizes = self._called_shape(self.node.results[0].roles)
            getattr(into.view(sizes), ADDED_IN_PLACE[self.name])(*positional)
            return [into]
        made = target(*positional, **arguments)
        values = [
            one for one in (made if isinstance(made, list | tuple) else [made]) if hasattr(one, "shape")
        ]
        found = []
        for result, value in zip(self.node.results, values, strict=True):
            value = value.reshape([self.size(role) for role in factors(result.roles)])
            # of rows that were written by index the rank keeps its part
            is_cut = not self.whole.isdisjoint(factors(result.roles))
            found.append(value[self._own_part(result.roles)].contiguous() if is_cut else value)
        return found

    def _own_part(self, roles: Dims) -> tuple[slice, ...]:
        """Return the rank's part of a tensor whose roles by index are whole."""
        return tuple(self._own(role) if role in self.whole else slice(None) for role in factors(roles))

    def _value(self, value: object, given: Sequence[Tensor]) -> Any:
        import torch

        if isinstance(value, Mapping):
            if "operand" in value:
                number = value["operand"]
                return self._called(self.node.operands[number].roles, value["dims"], given[number])
            if "float" in value:
                return float(value["float"])
            module, _, name = str(value["torch"]).partition(".")
            return getattr(torch, name) if module == "torch" else torch.device(value["torch"])
        if isinstance(value, list | tuple):
            return [self._value(one, given) for one in value]
        return value

    def _called(self, roles: Dims, dims: Sequence[Sequence[Sequence[int]]], local: Tensor) -> Tensor:
        """Return an operand in the dimensions that the call has for it."""
        own = [role for role in factors(roles) if self.graph.size(role) > 1]
        called = [[Index(*role) for role in dim] for dim in dims]
        flat = [role for dim in called for role in dim]
        local = local.reshape([self.size(role) for role in own])
        local = local.permute([own.index(role) for role in flat if role in own])
        for place, role in enumerate(flat):
            if role not in own:
                local = local.unsqueeze(place)
        local = local.expand([self.size(role) for role in flat])
        return local.reshape([prod(self.size(role) for role in dim) for dim in called])

    def _dims_of(self, argument: str) -> Sequence[Sequence[Sequence[int]]]:
        """Return the dimensions in which the call has an operand, each of roles."""
        found: Any = self.node.arguments[argument]
        dims: Sequence[Sequence[Sequence[int]]] = found["dims"]
        return dims

    def _called_shape(self, roles: Dims) -> list[int]:
        return [prod(self.size(role) for role in dim) for dim in roles]

    def _localise(self, arguments: dict[str, Any]) -> None:
        """Adapt shapes, and places along dimensions that ranks have a part of."""
        results = [self._called_shape(result.roles) for result in self.node.results]
        if self.name in _SIZED:
            arguments[_SIZED[self.name]] = results[0]
        if self.name not in ("slice", "slice_backward", "split", "split_with_sizes"):
            return
        side = self.node.results[0] if self.name == "slice_backward" else self.node.operands[0]
        called = results[0] if self.name == "slice_backward" else list(arguments["self"].shape)
        dims = side.roles if self.name == "slice_backward" else self._dims_of("self")
        axis = arguments["dim"] % len(called)
        whole = prod(self.graph.size(Index(*role)) for role in dims[axis])
        for name in ("start", "end", "split_size", "split_sizes"):
            value = arguments.get(name)
            if isinstance(value, list):
                arguments[name] = [one * called[axis] // whole for one in value]
            elif value is not None and value <= whole:
                arguments[name] = value * called[axis] // whole

    def _mask(self, arguments: dict[str, Any]) -> None:
        """Mask keys after each query, where queries are a part of the sequence."""
        import torch

        if not arguments["is_causal"]:
            return
        queries = [Index(*role) for role in self._dims_of("query")[2]]
        if not any(self.cuts.get(role) for role in queries):
            return
        where = torch.zeros(1, dtype=torch.long)
        for role in queries:
            own = self._own(role)
            where = where[:, None] * self.graph.size(role) + torch.arange(own.start, own.stop)
            where = where.reshape(-1)
        query, key = arguments["query"], arguments["key"]
        seen = where[:, None] >= torch.arange(key.shape[2])
        mask = torch.zeros(seen.shape, dtype=query.dtype).masked_fill(~seen, float("-inf"))
        arguments["is_causal"] = False
        arguments["attn_mask"] = mask.expand(query.shape[0], query.shape[1], *seen.shape)


def _called_roles(value: object) -> Iterator[Index]:
    """Yield the roles of the dimensions of tensors among arguments."""
    if isinstance(value, Mapping):
        yield from (Index(*role) for dim in value.get("dims", ()) for role in dim)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _called_roles(one)
