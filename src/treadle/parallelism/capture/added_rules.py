"""Rules of operators that others bring: by `operator_rule` in the file of a module, or by entry points.

A package declares, in the group ``treadle.operator_rules``, a module that calls `operator_rule`, or an
`OperatorRule` of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.checking import checked
from treadle.errors import FormatError
from treadle.parallelism.capture.rules import RULES, OperatorRule
from treadle.parallelism.graph.compute_graph import OperatorKind
from treadle.plug_ins import find_plug_ins, load_plug_in
from treadle.spelling import unknown
from treadle.unsupported import Unsupported

ENTRY_POINTS = "treadle.operator_rules"
_KINDS = tuple(
    kind.value for kind in OperatorKind if kind not in (OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT)
)
ADDED: dict[str, OperatorRule] = {}
"""Rules that were registered, by operator."""
_LOADED: set[str] = set()


@checked()
def operator_rule(
    operator: str, kind: str, specification: str, *, linear: Sequence[Sequence[str]] = ()
) -> OperatorRule:
    """Register what an operator of PyTorch is in a compute graph.

    Parameters
    ----------
    operator : str
        As the error of `capture` names it: ``aten.roll.default``.
    kind : str
        ``EINSUM``, ``ELEMENTWISE``, ``REDUCTION``, ``GATHER``, ``SCATTER``, ``ATTENTION``, ``DISPATCH`` or
        ``COMBINE``.
    specification : str
        Its dimensions, one character each: ``"ij,jk->ik"``; ``i!`` cannot be split, ``...`` are
        any leading dimensions, ``1`` is one of size 1.
    linear : sequence of sequences of str
        Names of arguments in which it is linear, all of a set taken together.

    Raises
    ------
    FormatError
        If there is no such kind, the specification has no arrow, or the operator has a rule already.

    Examples
    --------
    >>> import treadle
    >>> from treadle.parallelism.capture.added_rules import ADDED
    >>> rule = treadle.operator_rule("my.double.default", "ELEMENTWISE", "...->...", linear=[["x"]])
    >>> rule.kind
    <OperatorKind.ELEMENTWISE: 'ELEMENTWISE'>
    >>> _ = ADDED.pop("my.double.default")  # as if it had not been added
    """
    if kind not in _KINDS:
        raise FormatError(f"operator rule {operator}: {unknown('kind', kind, _KINDS)}")
    if "->" not in specification:
        raise FormatError(f"operator rule {operator}: {specification[:40]!r}; expected as 'ij,jk->ik'")
    rule = OperatorRule(operator, OperatorKind(kind), specification, tuple(map(tuple, linear)))
    _register(rule)
    return rule


def registered_rules() -> tuple[tuple[OperatorRule, ...], tuple[str, ...]]:
    """Return the registered rules, also of plug-ins, and a line for each plug-in that cannot be loaded."""
    faults = []
    for name, entries in find_plug_ins(ENTRY_POINTS, taken=_LOADED).items():
        found = load_plug_in(*entries)
        if isinstance(found, OperatorRule):
            try:
                _register(found)
            except FormatError as error:
                found = Unsupported(str(error))
        if isinstance(found, Unsupported):
            faults.append(f"{name}: {found}")
        else:
            _LOADED.add(name)
    return tuple(ADDED.values()), tuple(faults)


def _register(rule: OperatorRule) -> None:
    known = {own.operator for own in RULES}
    if rule.operator in known or ADDED.get(rule.operator, rule) != rule:
        raise FormatError(f"operator rule {rule.operator}: the operator has a rule already")
    ADDED[rule.operator] = rule
