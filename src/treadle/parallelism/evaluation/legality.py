"""Whether a plan's operators compute what the graph's do: along each axis, from what a kind means.

Along an axis either one role of the operator is cut, or some operands are partial, or all ranks do the same.

- *Cut.* The results of an operator at one place of a role depend on operands at that place only (that is what
  it means that a role is no ``whole`` one). So operands and results that have the role are cut there, in the
  same order of axes; operands that lack it are whole. A result that lacks it adds over it, and is partial:
  of EINSUM always; of REDUCTION where it adds (not of a maximum); of others where the operator is linear in
  operands that all have the role, so that parts of those give parts of the result.
- *Partial.* The operator is linear in exactly these operands together; all results are partial.
- ATTENTION is cut only by roles that both queries and their output have: over the size of a head it would
  have to add before the softmax, over keys after it. DISPATCH and COMBINE link a token's role with that of
  the places of an expert: ranks with tokens of their own fill places of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from treadle.parallelism.graph.compute_graph import Dims, Index, Node, OperatorKind, factors
from treadle.parallelism.plan.part_plan import OperatorPlan, sides
from treadle.parallelism.state.sharding import Sharding
from treadle.unsupported import Unsupported

_NO_SUMS = ("amax", "amin", "max", "min", "any", "all", "argmax", "argmin", "prod")
"""Reductions whose parts do not add up, by the last word of the operator before its overload."""


def operator_faults(node: Node, plan: OperatorPlan, sizes: Mapping[str, int]) -> Iterator[Unsupported]:
    """Yield why an operator cannot run as planned.

    Parameters
    ----------
    node : Node
    plan : OperatorPlan
        That fits the node.
    sizes : mapping from axis to its ranks
    """
    parts = 1
    for axis, size in sizes.items():
        found = _along(node, plan, axis)
        if isinstance(found, Unsupported):
            yield found
            return
        parts *= 1 if found is None else size
    yield from _order_faults(node, plan)
    if plan.parts != parts:
        yield Unsupported(f"{plan.parts} parts of the work; its states share it out over {parts}", node.name)


def _along(node: Node, plan: OperatorPlan, axis: str) -> Index | Unsupported | None:
    """Return the role that an axis cuts, if any."""
    places = [_place(side.roles, state, axis) for side, state in sides(node, plan)]
    taken, made = places[: len(node.operands)], places[len(node.operands) :]
    partial = tuple(at for at, place in enumerate(taken) if place == "+")
    linked = _linked(node)
    roles = {linked.get(place, place) for place in places if isinstance(place, Index)}
    if roles and not partial:
        if len(roles) > 1:
            return Unsupported(f"is sharded along {axis} on {len(roles)} dimensions", node.name)
        return _cut(node, axis, roles.pop(), taken, made)
    linear = {(at,) for at in range(len(node.operands))} if node.kind is OperatorKind.EINSUM else node.linear
    fault = ""
    if not partial:
        fault = f"has a partial result along {axis} without a sharded dimension" if "+" in made else ""
    elif roles:
        fault = f"is sharded along {axis}, but some of its inputs are partial"
    elif partial not in {tuple(sorted(some)) for some in linear}:
        fault = f"is not linear in its partial inputs along {axis} {partial}"
    elif any(place != "+" for place in made):
        fault = f"has partial inputs along {axis}, but its result is not partial"
    return Unsupported(fault, node.name) if fault else None


def role_fault(node: Node, role: Index, how: str) -> Unsupported | None:
    """Yield why an operator cannot be split along a role; ``how`` names the split in the message."""
    alike = _alike(node, role)
    if alike & node.whole:
        return Unsupported(f"is cut {how} over a role that it needs whole", node.name)
    if node.kind is OperatorKind.ATTENTION:
        queries, output = factors(node.operands[0].roles), factors(node.results[0].roles)
        if role not in queries or role not in output:
            return Unsupported(f"is cut {how} over keys or within heads", node.name)
    if node.kind in (OperatorKind.DISPATCH, OperatorKind.COMBINE):
        at_experts, rest = _at_experts(node)
        if role not in at_experts and not all(role in one for one in rest):
            return Unsupported(f"is cut {how} over the experts of one token", node.name)
    for number, result in enumerate(node.results):
        if alike.isdisjoint(factors(result.roles)) and not _adds(node, alike):
            return Unsupported(f"is cut {how} over what result {number} has not, and adds not", node.name)
    return None


def _alike(node: Node, role: Index) -> set[Index]:
    """Return a role and those that are linked with it."""
    return {role, *(other for other, one in _linked(node).items() if one == role)}


def _cut(
    node: Node, axis: str, role: Index, taken: Sequence[object], made: Sequence[object]
) -> Index | Unsupported:
    fault = role_fault(node, role, f"along {axis}")
    if fault:
        return fault
    alike = _alike(node, role)
    for number, (operand, place) in enumerate(zip(node.operands, taken, strict=True)):
        own: set[object] = {role for role in factors(operand.roles) if role in alike}
        if place not in (own or {None}):
            return Unsupported(f"takes operand {number} along {axis} otherwise than its cut asks", node.name)
    for number, (result, place) in enumerate(zip(node.results, made, strict=True)):
        own = {role for role in factors(result.roles) if role in alike}
        if own and place not in own:
            return Unsupported(f"makes result {number} along {axis} otherwise than its cut gives", node.name)
        if not own and place != "+":
            return Unsupported(f"adds along {axis}, but result {number} is not partial", node.name)
    return role


def _adds(node: Node, alike: set[Index]) -> bool:
    """Whether parts of a role give partial sums of a result without it."""
    if node.kind is OperatorKind.EINSUM:
        return True
    if node.kind is OperatorKind.REDUCTION:
        return node.operator.removeprefix("aten.").split(".")[0] not in _NO_SUMS
    has_role = [not alike.isdisjoint(factors(operand.roles)) for operand in node.operands]
    return any(some and all(has_role[at] for at in some) for some in node.linear)


def _linked(node: Node) -> dict[Index, Index]:
    """Map roles of DISPATCH and COMBINE: an expert's slots correspond to tokens."""
    if node.kind not in (OperatorKind.DISPATCH, OperatorKind.COMBINE):
        return {}
    at_experts, rest = _at_experts(node)
    own = [role for role in at_experts if not any(role in one for one in rest)]
    tokens = [role for role in rest[0] if role not in at_experts and all(role in one for one in rest)]
    return {own[1]: tokens[0]} if len(own) == 2 and len(tokens) == 1 else {}


def _at_experts(node: Node) -> tuple[tuple[Index, ...], list[tuple[Index, ...]]]:
    """Return the roles of the tensor that lies at the experts, and those of all others."""
    operands = [factors(operand.roles) for operand in node.operands]
    results = [factors(result.roles) for result in node.results]
    if node.kind is OperatorKind.DISPATCH:
        return results[0], operands
    return operands[0], [*operands[1:], *results]


def _order_faults(node: Node, plan: OperatorPlan) -> Iterator[Unsupported]:
    """Check that axes that cut one role cut it in one order; otherwise ranks meet different parts."""
    linked = _linked(node)
    orders: dict[Index, tuple[str, ...]] = {}
    for side, state in sides(node, plan):
        for role, axes in zip(factors(side.roles), state.dims, strict=True):
            if axes and orders.setdefault(linked.get(role, role), axes) != axes:
                reason = f"is cut over one role in the orders {','.join(axes)} and others"
                yield Unsupported(reason, node.name)
                return


def _place(roles: Dims, state: Sharding, axis: str) -> Index | str | None:
    """Describe an axis's effect on a tensor: the sharded role, ``+`` for partial, or nothing."""
    if axis in state.partial:
        return "+"
    cutting = zip(factors(roles), state.dims, strict=True)
    return next((role for role, axes in cutting if axis in axes), None)
