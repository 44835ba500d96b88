"""Base graphs whose best schedules are not breadth-first: found once, shipped, verified when loaded.

    python -m treadle.synthesis.steps.exact.bases --out src/treadle/synthesis/steps/exact/data

finds them again (extra ``exact``); a folder's files are replaced one by one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from treadle.atomic import write_bytes
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Send, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.exact.process import SolverProcess
from treadle.synthesis.steps.exact.synthesise import ExactSearch, ExactSteps, exact_steps
from treadle.topologies.expressions import parse
from treadle.topologies.topology import Topology
from treadle.verification.steps.step_check import verify_steps

COMMAND = "python -m treadle.synthesis.steps.exact.bases --out src/treadle/synthesis/steps/exact/data"
"""Makes the data files."""

_MAX_FILE_BYTES = 2**22


@dataclass(frozen=True)
class SearchedBase:
    """A base graph and what is searched on it.

    Parameters
    ----------
    expression : str
        Catalogue expression.
    chunks : int
        C, per shard.
    rounds : tuple of int
        Of the allgather's steps; the reduce-scatter takes them backwards.
    """

    expression: str
    chunks: int
    rounds: tuple[int, ...]

    def file_name(self, direction: Direction) -> str:
        """Name of the data file of one direction."""
        word = "allgather" if direction is Direction.BROADCAST else "reduce_scatter"
        stem = self.expression.replace("(", "_").replace(", ", "_").rstrip(")_")
        return f"{stem}_{word}.json"


BASES = (
    SearchedBase("diamond()", 2, (2, 2, 3)),
    SearchedBase("modified_de_bruijn(2, 3)", 2, (1, 2, 2, 2)),
    SearchedBase("modified_de_bruijn(2, 4)", 2, (2, 2, 2, 4, 5)),
    SearchedBase("modified_de_bruijn(3, 2)", 3, (1, 3, 4)),
    SearchedBase("modified_de_bruijn(4, 2)", 4, (2, 4, 9)),
)
"""Bandwidth-optimal with fewer steps than any breadth-first broadcast that is (table A.3)."""


def base_schedule(name: str, direction: Direction) -> tuple[Topology, Steps]:
    """The shipped schedule of a base graph.

    Parameters
    ----------
    name : str
        Catalogue expression: one of `BASES`, in any spelling that `parse` takes.
    direction : Direction
        BROADCAST: an allgather; REDUCE: a reduce-scatter, found on its own since the graphs are not all
        reverse-symmetric.

    Returns
    -------
    topology : Topology
        With unit links.
    steps : Steps

    Raises
    ------
    ScheduleError
        If there is no such base.
    FormatError
        If a data file is damaged: malformed, or its schedule fails verification.

    Examples
    --------
    >>> base_schedule("diamond()", Direction.BROADCAST)[1]
    <Steps broadcast: 8 ranks, 8 shards of 2 chunks, 3 steps, 70 sends>
    """
    topology = parse(name)
    base = next((base for base in BASES if base.expression == topology.name), None)
    if base is None:
        known = ", ".join(base.expression for base in BASES)
        raise ScheduleError(f"no schedule is shipped for {topology.name}; expected one of {known}")
    file_name = base.file_name(direction)
    path = resources.files("treadle.synthesis.steps.exact") / "data" / file_name
    return topology, read_base(path.read_bytes(), topology, direction, source=file_name)


def read_base(data: bytes, topology: Topology, direction: Direction, *, source: str) -> Steps:
    """Parse and verify the data file of one direction.

    Raises
    ------
    FormatError
        If it is malformed, belongs to another graph, or its schedule fails verification.
    """
    try:
        if len(data) > _MAX_FILE_BYTES:
            raise ValueError(f"{len(data)} bytes, at most {_MAX_FILE_BYTES}")
        steps = _steps_of(json.loads(data), topology, direction)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FormatError(
            f"damaged base schedule ({error}); make it again: {COMMAND}", source=source
        ) from None
    kind = _KINDS[direction]
    schedule = StepSchedule(kind, **{"broadcast" if kind.broadcasts else "reduce": steps})
    report = verify_steps(topology, on_all_ranks(topology, kind), schedule, limit=1)
    if report.n_violations:
        raise FormatError(
            f"the base schedule fails verification ({report.violations[0]}); make it again: {COMMAND}",
            source=source,
        )
    return steps


_KINDS = {Direction.BROADCAST: CollectiveKind.ALLGATHER, Direction.REDUCE: CollectiveKind.REDUCE_SCATTER}


def _steps_of(value: Any, topology: Topology, direction: Direction) -> Steps:
    if value["treadle"] != "exact-base" or value["version"] != 1:
        raise ValueError("expected treadle exact-base, version 1")
    if value["topology"] != topology.name or value["direction"] != direction:
        raise ValueError(f"it is about {value['topology']}, {value['direction']}")
    ends = [(int(u), int(w)) for u, w in zip(topology.tails, topology.heads, strict=True)]
    # Links are named by their ends: a catalogue may number them as it likes.
    numbers = {pair: link for link, pair in enumerate(ends)}
    if len(numbers) != len(ends):
        raise ValueError("the graph has parallel links, which their ends do not distinguish")
    if sorted(map(list, ends)) != sorted(value["arcs"]):
        raise ValueError(f"its arcs are not those of {topology.name}")
    sends: list[Send] = [
        (shard, numbers[tail, head], step, low, high) for shard, tail, head, step, low, high in value["sends"]
    ]
    return steps_from_sends(direction, topology.n_nodes, value["chunks"], sends, n_steps=len(value["rounds"]))


def find_base(
    base: SearchedBase, direction: Direction, *, solver: SolverProcess, time_limit_s: float
) -> ExactSteps:
    """Search the schedule of one direction.

    Raises
    ------
    InfeasibleError
        If it is not found.
    """
    topology = parse(base.expression)
    rounds = base.rounds if direction is Direction.BROADCAST else base.rounds[::-1]
    found = exact_steps(
        topology,
        direction,
        range(topology.n_nodes),
        chunks=base.chunks,
        rounds=rounds,
        search=ExactSearch(time_limit_s=time_limit_s, solver=solver),
    )
    if found.steps is None:
        raise InfeasibleError(f"{base.expression}, {direction}, rounds {list(rounds)}: {found.reason}")
    return found


def base_json(
    topology: Topology, base: SearchedBase, steps: Steps, rounds: Sequence[int]
) -> Mapping[str, Any]:
    """The data file's value; a send is [shard, tail, head, step from 0, low, high]."""
    columns = (steps.shard, topology.tails[steps.link], topology.heads[steps.link], steps.send_steps())
    rows = zip(*(column.tolist() for column in (*columns, steps.low, steps.high)), strict=True)
    return {
        "treadle": "exact-base",
        "version": 1,
        "topology": base.expression,
        "direction": str(steps.direction),
        "command": COMMAND,
        "chunks": base.chunks,
        "rounds": list(rounds),
        "arcs": sorted([int(u), int(w)] for u, w in zip(topology.tails, topology.heads, strict=True)),
        "sends": [list(row) for row in rows],
    }


def _text(value: Mapping[str, Any]) -> bytes:
    """JSON with one line per key and per send of a step, so that changes can be read."""

    def lines() -> Iterator[str]:
        for key, item in value.items():
            if key == "sends":
                rows = ",\n  ".join(json.dumps(row, separators=(",", ":")) for row in item)
                yield f'"sends": [\n  {rows}\n ]'
            else:
                yield f"{json.dumps(key)}: {json.dumps(item)}"

    return ("{\n " + ",\n ".join(lines()) + "\n}\n").encode()


def main(argv: Sequence[str] | None = None) -> None:
    """Find all bases again and write their files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the data files")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds per search")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    with SolverProcess() as solver:
        for base in BASES:
            topology = parse(base.expression)
            for direction in Direction:
                found = find_base(base, direction, solver=solver, time_limit_s=options.time_limit)
                assert found.steps is not None
                data = _text(base_json(topology, base, found.steps, found.rounds))
                read_base(data, topology, direction, source=base.file_name(direction))
                write_bytes(options.out / base.file_name(direction), data)


if __name__ == "__main__":
    main()
