"""A mixture-of-experts layer whose dispatch and combine are all-to-alls by Treadle, made for uneven demands.

Every rank has tokens and some experts. A router sends each token to the k experts that it likes best, and
some experts are liked by everyone. So the ranks have very different amounts for each other: the demand
matrix. The program solves the all-to-all for that matrix and for its transpose, moves the tokens to their
experts and the results back in process, and compares every number with the layer computed in one place.

    python examples/moe_alltoall.py
    python examples/moe_alltoall.py --fabric "torus(4, 4)" --experts 32 --top 2 --skew 1.2 --json

Beside it stands what a schedule made for even demands would take: with all blocks padded to the largest, as
libraries with one block size do, and with each pair's real amount on the even schedule's routes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError, TreadleError
from treadle.planning import ElementType, SolveResult, program_of, solve
from treadle.program.program import Buffer
from treadle.runtime.in_process import Execution, PreparedProgram
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.topologies import parse
from treadle.topologies.topology import Topology

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
WORD = 4
DEFAULT_FABRIC = "generalized_kautz(4, 16, bandwidth='25Gbit/s')"
DISPATCH, COMBINE = "dispatch", "combine"


@dataclass(frozen=True)
class Routing:
    """Which experts the tokens go to; experts are dealt to the ranks in equal blocks.

    Parameters
    ----------
    ranks, experts : int
    chosen : array of int, shape (ranks, tokens, top)
        Experts of each token, all different.
    gate : array of float32, shape (ranks, tokens, top)
        Weights of their results; those of a token add up to 1.
    """

    ranks: int
    experts: int
    chosen: Ints
    gate: Floats

    @property
    def home(self) -> Ints:
        """Rank of the expert that each copy of a token goes to."""
        return self.chosen * self.ranks // self.experts

    def demands(self) -> Demands:
        """Row i: copies of tokens that rank i sends to each rank."""
        counts = [np.bincount(row.reshape(-1), minlength=self.ranks) for row in self.home]
        return Demands(np.array(counts, dtype=np.int64))

    def order(self, rank: int) -> Ints:
        """Copies of a rank's tokens (token * top + place) in the order of the ranks that they go to."""
        order: Ints = np.argsort(self.home[rank].reshape(-1), kind="stable")
        return order


def route_tokens(ranks: int, experts: int, tokens: int, top: int, skew: float, seed: int) -> Routing:
    """Scores with random noise; expert e is liked less by log(1 + place) times `skew`, places at random."""
    if experts < 1 or experts % ranks:
        raise ScheduleError(f"experts {experts}: expected a multiple of {ranks}, the ranks of the fabric")
    if not 1 <= top <= experts or tokens < 1:
        raise ScheduleError(f"top {top}, tokens {tokens}: expected 1 to {experts}, and at least 1")
    if not (0 <= skew <= 100):
        raise ScheduleError(f"skew {skew}: expected 0 (all alike) to 100")
    rng = np.random.default_rng(seed)
    liking = -skew * np.log1p(rng.permutation(experts))
    scores = liking + rng.gumbel(size=(ranks, tokens, experts))
    chosen = np.argsort(-scores, axis=2)[:, :, :top]
    best = np.take_along_axis(scores, chosen, axis=2)
    gate = np.exp(best - best.max(axis=2, keepdims=True))
    return Routing(ranks, experts, chosen, (gate / gate.sum(axis=2, keepdims=True)).astype(np.float32))


class Exchange:
    """An all-to-all of rows of `width` numbers, in process, by a verified plan for its demands.

    Parameters
    ----------
    topology : Topology
    demands : Demands
        Rows from rank to rank.
    width : int
        Numbers of a row, moved as 32-bit words.
    algorithm : str
    """

    def __init__(self, topology: Topology, demands: Demands, width: int, algorithm: str) -> None:
        collective = on_ranks(topology, demands)
        self.width, self.demands = width, demands
        self.result: SolveResult = solve(topology, collective, algorithm=algorithm)
        words = demands.buffer_units * width
        program = program_of(self.result.plan, words * WORD)
        self._run = Execution(PreparedProgram(program), words, element=ElementType.INT32)

    def carry(self, rows: Sequence[Floats]) -> list[Floats]:
        """Rows of every rank, by target, to rows of every rank, by source."""
        memories = [memory.arrays for memory in self._run.memories]
        for block, memory in zip(rows, memories, strict=True):
            memory[Buffer.INPUT][:] = np.ascontiguousarray(block).reshape(-1).view(np.int32)
        self._run.run()
        return [memory[Buffer.OUTPUT].view(np.float32).reshape(-1, self.width) for memory in memories]

    @property
    def seconds(self) -> float:
        """On the modelled fabric, without latency."""
        return float(self.demands.buffer_units * self.width * WORD / self.result.algbw)


def on_ranks(topology: Topology, demands: Demands | None) -> Collective:
    """An all-to-all of all compute nodes."""
    return Collective(CollectiveKind.ALLTOALL, tuple(topology.compute_nodes.tolist()), demands=demands)


def layer(tokens: Floats, experts: Ints, weights: Floats) -> Floats:
    """What experts make of tokens: expert e is relu(x W_e)."""
    made = np.empty_like(tokens)
    for expert in np.unique(experts).tolist():
        made[experts == expert] = np.maximum(tokens[experts == expert] @ weights[expert], 0)
    return made


def forward(
    routing: Routing, tokens: Floats, weights: Floats, dispatch: Exchange, combine: Exchange
) -> Floats:
    """The layer with experts spread over the ranks; shape (ranks, tokens, width) in and out."""
    ranks, top = routing.ranks, routing.chosen.shape[2]
    orders = [routing.order(rank) for rank in range(ranks)]
    arrived = dispatch.carry([tokens[rank][orders[rank] // top] for rank in range(ranks)])
    made = []
    for rank, rows in enumerate(arrived):
        # every source sorts by target and keeps the order of its copies, so the target knows whose is whose
        experts = [routing.chosen[s].reshape(-1)[orders[s]] for s in range(ranks)]
        mine = [e[routing.home[s].reshape(-1)[orders[s]] == rank] for s, e in enumerate(experts)]
        made.append(layer(rows, np.concatenate(mine), weights))
    results = np.zeros_like(tokens)
    for rank, rows in enumerate(combine.carry(made)):
        copies = np.empty_like(rows)
        copies[orders[rank]] = rows
        results[rank] = np.einsum(
            "tk,tkw->tw", routing.gate[rank], copies.reshape(len(tokens[rank]), top, -1)
        )
    return results


def in_one_place(routing: Routing, tokens: Floats, weights: Floats) -> Floats:
    """The same layer without ranks."""
    results = np.zeros_like(tokens)
    for place in range(routing.chosen.shape[2]):
        made = layer(
            tokens.reshape(-1, tokens.shape[2]), routing.chosen[:, :, place].reshape(-1), weights
        ).reshape(tokens.shape)
        results += routing.gate[:, :, place, None] * made
    return results


def even_seconds(topology: Topology, demands: Demands, row_bytes: int, algorithm: str) -> dict[str, float]:
    """The same demands on what is made for even ones: blocks padded, and real amounts on its routes."""
    even = on_ranks(topology, None)
    per_pair = even.n_ranks / float(solve(topology, even, algorithm=algorithm).algbw)
    best = optimal_rate(topology, even)
    routes = extract_paths(topology, even, best.flow.by_source)
    amount = demands.between[routes.paths.source, routes.paths.target] * routes.weights
    loads = np.bincount(routes.paths.links, weights=amount[routes.paths.owner], minlength=topology.n_links)
    return {
        "even_schedule_padded": int(demands.between.max()) * per_pair * row_bytes,
        "even_routes": float((loads / topology.bandwidths).max()) * row_bytes,
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Plans, the moved layer, its error, and times on the modelled fabric."""
    topology = parse(arguments.fabric)
    ranks = len(topology.compute_nodes)
    routing = route_tokens(
        ranks, arguments.experts or ranks, arguments.tokens, arguments.top, arguments.skew, arguments.seed
    )
    demands, width = routing.demands(), arguments.width
    if width < 1:
        raise ScheduleError(f"width {width}: expected at least 1")
    back = Demands(demands.matrix.T)
    dispatch = Exchange(topology, demands, width, arguments.algorithm)
    combine = Exchange(topology, back, width, arguments.algorithm)
    rng = np.random.default_rng(arguments.seed + 1)
    tokens = rng.normal(size=(ranks, arguments.tokens, width)).astype(np.float32)
    weights = rng.normal(size=(routing.experts, width, width)).astype(np.float32) / np.float32(width**0.5)
    wanted = in_one_place(routing, tokens, weights)
    found = forward(routing, tokens, weights, dispatch, combine)
    error = float(np.nan_to_num(np.abs(found - wanted).max() / np.abs(wanted).max(), nan=np.inf))
    received = demands.matrix.sum(axis=0)
    values: dict[str, Any] = {
        "fabric": topology.name,
        "ranks": ranks,
        "experts": routing.experts,
        "received_rows": received.tolist(),
        "busiest_over_mean": float(received.max() / received.mean()),
        "error": error,
    }
    for name, exchange in ((DISPATCH, dispatch), (COMBINE, combine)):
        bound = optimal_rate(topology, on_ranks(topology, exchange.demands))
        values[name] = {
            "bound_s": float(width * WORD / bound.upper),
            "this_schedule_s": exchange.seconds,
            **{
                f"{key}_s": seconds
                for key, seconds in even_seconds(
                    topology, exchange.demands, width * WORD, arguments.algorithm
                ).items()
            },
        }
    return values


def show(values: dict[str, Any]) -> None:
    """Times side by side."""
    print(
        f"{values['experts']} experts on {values['ranks']} ranks of {values['fabric']}; the busiest rank "
        f"gets {values['busiest_over_mean']:.2f} times the mean"
    )
    print(f"  {'us on the modelled fabric':34}{DISPATCH:>12}{COMBINE:>12}")
    for key, label in (
        ("bound_s", "no schedule can be faster than"),
        ("this_schedule_s", "schedule for these demands"),
        ("even_routes_s", "routes for even demands"),
        ("even_schedule_padded_s", "even schedule, blocks padded"),
    ):
        print(f"  {label:34}{1e6 * values[DISPATCH][key]:12.4g}{1e6 * values[COMBINE][key]:12.4g}")
    gain = [values[name]["even_routes_s"] / values[name]["this_schedule_s"] for name in (DISPATCH, COMBINE)]
    print(f"  {'gain over routes for even demands':34}{gain[0]:12.2f}{gain[1]:12.2f}")
    print(f"  largest error against the layer in one place: {values['error']:.1e}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; 0 if every value is right, 1 if not, 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fabric", default=DEFAULT_FABRIC, help="direct-connect catalogue expression")
    parser.add_argument("--experts", type=int, help="a multiple of the ranks; default one each")
    parser.add_argument("--tokens", type=int, default=64, help="of each rank (64)")
    parser.add_argument("--top", type=int, default=2, help="experts of a token (2)")
    parser.add_argument("--width", type=int, default=64, help="numbers of a token (64)")
    parser.add_argument("--skew", type=float, default=1.0, help="0: experts alike; the larger the less (1)")
    parser.add_argument("--algorithm", default="tsmcf", help="of the all-to-alls (tsmcf)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args(argv)
    try:
        values = measure(arguments)
    except TreadleError as refusal:
        print(f"moe: {refusal}", file=sys.stderr)
        return 2
    is_right = values["error"] < 1e-5
    if arguments.json:
        print(json.dumps({**values, "is_right": is_right}))
    else:
        show(values)
    if not is_right:
        print(f"moe: the layer is wrong by {values['error']:.1e} of its largest value", file=sys.stderr)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
