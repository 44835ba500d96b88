"""From a joint graph of torch.fx to a compute graph; reads the graph by attributes and needs no torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from math import isfinite
from typing import Any

from treadle.errors import TreadleError
from treadle.parallelism.capture.call import OperatorCall
from treadle.parallelism.capture.drafting import Drafting, Seen
from treadle.parallelism.capture.rules import RULES, OperatorRule, Sets, linear_sets, pointwise
from treadle.parallelism.capture.specification import Specification, read_specification
from treadle.parallelism.capture.views import VIEWS
from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, Source, TensorRef

_SOURCES = {
    "ParamAOTInput": Source.PARAMETER,
    "BufferAOTInput": Source.BUFFER,
    "PlainAOTInput": Source.INPUT,
    "TangentAOTInput": Source.TANGENT,
}


def read_joint(
    module: Any,
    *,
    rules: Iterable[OperatorRule] = (),
    tied: Mapping[str, str] | None = None,
    faults: Iterable[str] = (),
) -> ComputeGraph:
    """Return the compute graph of a ``torch.fx.GraphModule`` with descriptors.

    Parameters
    ----------
    module : torch.fx.GraphModule
        As ``aot_export_joint_with_descriptors`` makes it.
    rules : iterable of OperatorRule
        They come before the table.
    tied : mapping of str to str
        Second names of parameters with their first names: placeholders of both are one, and gradients add.
    faults : iterable of str
        Rules that could not be loaded, for the message about an operator without one.
    """
    return _Reading(module, rules, tied or {}, faults).graph()


class _Reading:
    def __init__(
        self, module: Any, rules: Iterable[OperatorRule], tied: Mapping[str, str], faults: Iterable[str]
    ) -> None:
        self._faults = "".join(f"; plug-in {fault}" for fault in faults)
        self._module = module
        self._rules = {rule.operator: rule for rule in (*RULES, *rules)}
        self._draft = Drafting()
        self._tied = tied
        self._sums = 0
        self._paths: dict[str, Seen] = {}  # parameters and buffers by their first names
        self._values: dict[Any, Any] = {}  # fx node -> Seen, list of Seen, or a number
        self._late: set[Any] = set()  # fx nodes of the backward pass
        self._placeholders: dict[Any, Any] = {}  # descriptor -> fx node

    def graph(self) -> ComputeGraph:
        """Read all nodes; tangents come just before what first reads them."""
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                self._placeholders[node.meta["desc"]] = node
                if _SOURCES.get(type(node.meta["desc"]).__name__) is not Source.TANGENT:
                    self._place(node)
            elif node.op == "get_attr":
                self._place(node)
            elif node.op == "call_function":
                for read in node.all_input_nodes:
                    if read not in self._values:
                        self._place(read)
                self._values[node] = self._call(node)
            elif node.op == "output":
                return self._finish(node)
        raise TreadleError("capture: the joint graph has no output")

    def _place(self, node: Any) -> None:
        desc, value = node.meta.get("desc"), node.meta["val"]
        if not hasattr(value, "shape"):
            self._values[node] = value
            return
        source = _SOURCES.get(type(desc).__name__, Source.BUFFER)
        path = getattr(desc, "target", None) or (f"{desc.idx}" if hasattr(desc, "idx") else "")
        if source in (Source.PARAMETER, Source.BUFFER) and str(path) in self._tied:
            self._values[node] = self._paths[self._tied[str(path)]]
            return
        self._values[node] = self._paths[str(path)] = self._draft.add_placeholder(
            node.name, tuple(value.shape), value.element_size(), source=source, path=str(path)
        )
        if source is Source.TANGENT:
            self._late.add(node)

    def _call(self, node: Any) -> Any:
        operator = str(node.target)
        if operator == "<built-in function getitem>":
            if node.args[0] in self._late:
                self._late.add(node)
            return self._values[node.args[0]][node.args[1]]
        if node.meta.get("partitioner_tag") == "is_backward" or any(
            n in self._late for n in node.all_input_nodes
        ):
            self._late.add(node)
        if operator == "aten._to_copy.default" and node.args[0].meta["val"].dtype == node.meta["val"].dtype:
            return self._values[node.args[0]]
        if node.meta.get("val") is None:  # a check that returns nothing
            return None
        call, operands, arguments = self._described(node, operator)
        try:
            if operator in VIEWS and operator not in self._rules:
                return self._draft.notice(VIEWS[operator](self._draft, operands[0], call))
            kind, specification, sets = self._rule(node, call)
            value, read, linear = node.meta["val"], operands, linear_sets(call, sets)
            if not specification.operands:
                # it reads no tensor, not even the one whose shape it has
                read, linear = [], ()
                arguments = {
                    name: given
                    for name, given in arguments.items()
                    if not (isinstance(given, dict) and "operand" in given)
                } | {"dtype": {"torch": str(value.dtype)}}
            made = self._draft.add(
                node.name,
                kind,
                specification,
                read,
                [(tuple(one.shape), one.element_size()) for one in self._values_of(node)],
                phase=Phase.BACKWARD if node in self._late else Phase.FORWARD,
                operator=operator,
                line=_line(node),
                linear=linear,
                arguments=arguments,
            )
            if "_like." in operator:  # of the shape of a tensor that it does not read
                self._draft.tie(made[0], operands[0])
            if not isinstance(value, list | tuple):
                return made[0]
            left = iter(made)
            return [next(left) if hasattr(one, "shape") else None for one in value]
        except TreadleError as error:
            where = f" at {line}" if (line := _line(node)) else ""
            raise TreadleError(f"capture: {operator}{where}: {error}") from error

    def _rule(self, node: Any, call: OperatorCall) -> tuple[OperatorKind, Specification, Sets]:
        rule = self._rules.get(call.operator)
        if rule is None and any(str(tag).endswith("pointwise") for tag in getattr(node.target, "tags", ())):
            rule = OperatorRule(call.operator, OperatorKind.ELEMENTWISE, pointwise)
        if rule is not None:
            text = rule.specify(call)
            # "->" reads nothing; of a pointwise operator it is one scalar
            is_made = text.startswith("->") and rule.specification is not pointwise
            before = () if is_made else tuple(map(len, call.operands))
            return rule.kind, read_specification(text, before, tuple(map(len, call.results))), rule.linear
        raise TreadleError(
            f'no rule for this operator; add treadle.operator_rule("{call.operator}", "KIND", "...->...") to '
            f"the file of the module: its kind, what it does to dimensions; see docs/how-to/capture.md"
            f"{self._faults}"
        )

    def _described(self, node: Any, operator: str) -> tuple[OperatorCall, list[Seen], dict[str, object]]:
        """Return the call as rules see it, the tensors that it reads, and the arguments of its node."""
        kept: dict[str, object] = {}
        schema = getattr(getattr(node.target, "_schema", None), "arguments", [])
        arguments: dict[str, Any] = {
            one.name: node.args[at] if at < len(node.args) else node.kwargs.get(one.name, one.default_value)
            for at, one in enumerate(schema)
        }
        operands: list[Seen] = []
        names: list[str] = []
        for name, value in list(arguments.items()):
            kept[name] = self._kept(value, len(operands))
            for one in _tensors(value):
                seen = self._values[one]
                if isinstance(seen, Seen):
                    operands.append(seen)
                    names.append(name)
                    is_list = isinstance(value, list | tuple)
                    arguments[name] = tuple(one is not None for one in value) if is_list else None
        shapes = tuple(self._draft.shape(seen) for seen in operands)
        results = tuple(tuple(value.shape) for value in self._values_of(node))
        return OperatorCall(operator, arguments, shapes, results, tuple(names)), operands, kept

    def _kept(self, value: Any, n_operands: int) -> object:
        """Return an argument as a value of JSON; its tensors are counted on from this number of operands."""
        numbers = count(n_operands)

        def as_argument(part: Any) -> object:
            if hasattr(part, "all_input_nodes"):
                known = self._values[part]
                return {"operand": next(numbers)} if isinstance(known, Seen) else known
            if isinstance(part, list | tuple):
                return [as_argument(one) for one in part]
            if isinstance(part, float):
                return part if isfinite(part) else {"float": str(part)}
            is_plain = part is None or isinstance(part, bool | int | str)
            return part if is_plain else {"torch": str(part)}  # a type, a layout, a device

        return as_argument(value)

    @staticmethod
    def _values_of(node: Any) -> list[Any]:
        value = node.meta["val"]
        values = value if isinstance(value, list | tuple) else [value]
        return [one for one in values if hasattr(one, "shape")]

    def _finish(self, node: Any) -> ComputeGraph:
        outputs: list[Seen] = []
        owners: list[tuple[Seen, Seen]] = []
        tangents: dict[TensorRef, TensorRef] = {}
        places = {getattr(desc, "output", None): place for desc, place in self._placeholders.items()}
        for desc, value in zip(node.meta["desc"], node.args[0], strict=True):
            if value is None:
                continue
            seen = self._values[value]
            if type(desc).__name__ == "GradAOTOutput":
                owners.append((self._values[self._placeholders[desc.grad_of]], seen))
                self._draft.tie(*owners[-1])
                continue
            outputs.append(seen)
            place = places.get(desc)
            if place is not None and place in self._values:
                self._draft.tie(seen, self._values[place])
                tangents[seen.tensor] = self._values[place].tensor
        gradients: dict[TensorRef, Seen] = {}
        for owner, seen in owners:
            before = gradients.get(owner.tensor)
            gradients[owner.tensor] = seen if before is None else self._added(owner, before, seen)
        return self._draft.finish([*outputs, *gradients.values()], gradients=gradients, tangents=tangents)

    def _added(self, owner: Seen, first: Seen, second: Seen) -> Seen:
        """Return the gradient of a parameter that a module has twice."""
        self._sums += 1
        shape = self._draft.shape(owner)
        (seen,) = self._draft.add(
            f"tied_{self._sums}",
            OperatorKind.ELEMENTWISE,
            read_specification("...,...->...", (len(shape),) * 2, (len(shape),)),
            [first, second],
            [(shape, self._draft.element_bytes(owner))],
            phase=Phase.BACKWARD,
            operator="aten.add.Tensor",
            linear=((0, 1),),
            arguments={"self": {"operand": 0}, "other": {"operand": 1}},
        )
        return seen


def _tensors(value: object) -> Iterator[Any]:
    """Yield the nodes of fx in an argument."""
    if hasattr(value, "all_input_nodes"):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)


def _line(node: Any) -> str:
    """Return the model's call of an operator: the last entry of its stack, as ``file:line``."""
    places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return ":".join(places[-1]) if places else ""
