"""States that a user fixes: a parameter as it is stored, or what an operator makes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, StateVariable, Wait
from treadle.parallelism.state.sharding import Sharding

_WORD = re.compile(r"-|[^\s,|-]+(,[^\s,|-]+)*")


def sharding_of(text: str) -> Sharding:
    """Parse a state as it is printed.

    Raises
    ------
    ScheduleError
        If the string is not a state.

    Examples
    --------
    >>> sharding_of("ib | - | nv partial dp")
    Sharding(dims=(('ib',), (), ('nv',)), partial=frozenset({'dp'}))
    """
    shards, _, partial = text.partition(" partial ")
    words = [word.strip() for word in shards.split("|")]
    if not all(_WORD.fullmatch(word) for word in (*words, partial.strip() or "-")):
        raise ScheduleError(
            f"state {text[:60]!r}: expected one such as 'dp | - | tp', a word for each factor"
        )
    dims = tuple(() if word == "-" else tuple(word.split(",")) for word in words)
    return Sharding(dims, frozenset(partial.strip().split(",")) if partial else frozenset())


def constrained_domains(table: VariableTable, constraints: Mapping[str, str]) -> tuple[Int64Array, ...]:
    """Return the states that satisfy the constraints, ascending, per variable.

    Parameters
    ----------
    table : VariableTable
    constraints : mapping from name to state
        Names of parameters (a path, its end, or a word of it: ``wq``) or of tensors as the graph spells them,
        perhaps after the part's name and a slash; states as they are printed.

    Raises
    ------
    ScheduleError
        For a name that nothing has, or a state that nothing of that name may take: names those that it may.
    """
    allowed = [np.ones(variable.size, bool) for variable in table.variables]
    for name, text in constraints.items():
        state, found, offered = sharding_of(text), False, dict[str, None]()
        for number, variable in enumerate(table.variables):
            options = _options(table, variable, name)
            if options is None:
                continue
            found = True
            offered.update(dict.fromkeys(map(str, options)))
            allowed[number] &= np.array([one == state for one in options])
            if not allowed[number].any():
                raise ScheduleError(
                    f"--pin {name}={text}: not possible for {variable.name}; expected one of "
                    f"{'; '.join(offered)[:400]}"
                )
        if not found:
            stored = [table.variables[number].name for number in sorted(set(table.stored.values()))]
            raise ScheduleError(
                f"--pin {name[:60]!r}: unknown parameter or tensor; expected one of {', '.join(stored)[:400]}"
            )
    return tuple(np.flatnonzero(states).astype(np.int64) for states in allowed)


def _options(
    table: VariableTable, variable: StateVariable | OperatorVariable, name: str
) -> list[Sharding] | None:
    """Return the constrained part of each state; None if the name is not of this variable."""
    part, _, rest = name.rpartition("/")
    if part and part != table.values[variable.part].part.name:
        return None
    if isinstance(variable, StateVariable):
        path = variable.name.partition("/")[2]
        is_called = path == rest or path.endswith(f".{rest}") or rest in path.split(".")
        return list(variable.states) if variable.wait is Wait.STORED and is_called else None
    for tensor in (*variable.cluster.makes, *variable.cluster.inner):
        if variable.graph.spelled(tensor) == rest:
            view = variable.result_states(tensor)
            return [view.state(label) for label in range(variable.size)]
    return None
