"""TACCL's three programs: routes of chunks, their order on links, and which of them go as one message.

First a mixed-integer program routes every chunk so that no path takes long and no link carries much, whatever
the order on links. Then a greedy orders the chunks on each link: what has the longest way to go comes first,
of these what has come over the fewest links. Last a second program joins neighbours in that order into
messages, which saves starts and makes the first of them wait. Source: Shah et al., TACCL: Guiding Collective
Algorithm Synthesis using Communication Sketches (NSDI 2023), section 5; its public code is under the MIT
licence (microsoft/taccl), and none of it is used here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array, frozen, offsets_of, positions_of
from treadle.context import TimeLimitError, context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.lp import OPTIMAL, Program
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.peers.teccl_gather import ProgramResult
from treadle.synthesis.translations import Translations, translations_of
from treadle.topologies.topology import Topology

MAX_CHOICES = 20_000
"""Most whole-numbered variables of the routing program."""
MAX_JOINTS = 2_000
"""Most pairs of neighbours that may be joined into a message; of more none are."""
TIME_LIMIT_S = 60.0
"""Default limit, seconds."""
GAP = 0.01
"""Routes this close to the best value are as good."""
_ROUTING_SHARE = 0.7
"""Share of the time for routes; what is left is for messages."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chunks:
    """Chunks to be moved: chunk c is at rank source[c], and wanted[c] are the ranks that need it.

    Parameters
    ----------
    source : array of int64, shape (C,)
    wanted : array of bool, shape (C, N)
    image : array of int64, shape (G, C)
        [g, c]: the chunk that element g of the group takes chunk c to.
    size_bytes : float
        Of a chunk.
    """

    source: Int64Array
    wanted: BoolArray
    image: Int64Array
    size_bytes: float


class ChunkSends(NamedTuple):
    """Sends of chunks over ways, in the order of their steps.

    Parameters
    ----------
    chunk, way, step : arrays of int64, shape (n,)
    way_links : tuple of tuples of int
        Links of each way.
    gap : float
        How far the value of the routes may be from the best, as a share.
    is_late : bool
        Time ran out before that gap was small.
    """

    chunk: Int64Array
    way: Int64Array
    step: Int64Array
    way_links: tuple[tuple[int, ...], ...]
    gap: float
    is_late: bool


class TacclPaths:
    """Ways from rank to rank: links, and over switches the widest way of a pair that has no link.

    Parameters
    ----------
    topology : Topology
    ranks : array of int64, shape (N,)
    chunk_bytes : float
    alpha_s : float
        Seconds of each send besides its bytes and the latencies of its links.
    """

    def __init__(self, topology: Topology, ranks: Int64Array, chunk_bytes: float, alpha_s: float) -> None:
        rank_of = positions_of(topology.n_nodes, ranks)
        tails, heads = rank_of[topology.tails], rank_of[topology.heads]
        direct = np.flatnonzero((tails >= 0) & (heads >= 0) & (tails != heads))
        links: list[tuple[int, ...]] = [(int(link),) for link in direct]
        joined = set(zip(tails[direct].tolist(), heads[direct].tolist(), strict=True))
        links += [way for pair, way in _switched(topology, ranks, rank_of).items() if pair not in joined]
        self.links = tuple(links)
        self.tail = np.array([tails[way[0]] for way in links], dtype=np.int64)
        self.head = np.array([heads[way[-1]] for way in links], dtype=np.int64)
        self.latency = np.array([alpha_s + topology.latencies_ns[[*way]].sum() * 1e-9 for way in links])
        self.transfer = np.array([chunk_bytes / topology.bandwidths[[*way]].min() for way in links])
        self.offset = offsets_of([*map(len, links)])
        self.link = np.array([link for way in links for link in way], dtype=np.int64)
        self.bandwidth = topology.bandwidths

    @property
    def time(self) -> Floats:
        """Seconds of a chunk over each way."""
        total: Floats = self.latency + self.transfer
        return total


def _switched(
    topology: Topology, ranks: Int64Array, rank_of: Int64Array
) -> dict[tuple[int, int], tuple[int, ...]]:
    """The widest way of each pair over switches alone, of these one of the fewest links."""
    out: list[list[int]] = [[] for _ in range(topology.n_nodes)]
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        if tail != head:
            out[tail].append(link)
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for width in sorted(set(topology.bandwidths.tolist()), reverse=True):
        for rank, start in enumerate(ranks.tolist()):
            reached: dict[int, tuple[int, ...]] = {start: ()}
            queue = deque([start])
            while queue:
                node = queue.popleft()
                for link in out[node]:
                    head = int(topology.heads[link])
                    if head in reached or topology.bandwidths[link] < width:
                        continue
                    reached[head] = (*reached[node], link)
                    if rank_of[head] >= 0:
                        found.setdefault((rank, int(rank_of[head])), reached[head])
                    elif not topology.is_compute[head]:
                        queue.append(head)
    return found


class _Routing:
    """The first program, for one chunk of each orbit.

    Ties between variables that the group maps to one another are the symmetry of TACCL's sketches, here of
    the whole fabric; and a chunk takes ways of at most a hop more than its shortest.
    """

    def __init__(
        self, topology: Topology, ways: TacclPaths, chunks: Chunks, links: Int64Array, way_image: Int64Array
    ) -> None:
        self.ways, self.chunks, self._way_image = ways, chunks, way_image
        self.leaders = np.flatnonzero(chunks.image.min(axis=0) == np.arange(len(chunks.source)))
        self._n = chunks.wanted.shape[1]
        self._source, self._wanted = chunks.source[self.leaders], chunks.wanted[self.leaders]
        self._chunk, self._way = self._choices()
        if len(self._chunk) > MAX_CHOICES:
            raise ScheduleError(
                f"taccl: the program of {topology.name} has {len(self._chunk)} whole-numbered variables, at "
                f"most {MAX_CHOICES} are possible; use a smaller fabric or fewer chunks"
            )
        orbit, number, sizes = np.unique(links.min(axis=0), return_inverse=True, return_counts=True)
        turns = len(links) / sizes  # every link of an orbit carries what all of them carry, shared evenly
        held = np.repeat(np.arange(len(ways.links)), np.diff(ways.offset))
        seconds = ways.latency[held] + chunks.size_bytes / ways.bandwidth[ways.link]
        self._load = np.zeros((len(ways.links), len(orbit)))
        np.add.at(self._load, (held, number[ways.link]), seconds * turns[number[ways.link]])

    def _choices(self) -> tuple[Int64Array, Int64Array]:
        """Chunks (of the leaders) and ways that they may take."""
        tail, head = self.ways.tail, self.ways.head
        hops = np.full((self._n, self._n), 2**20, dtype=np.int64)
        np.fill_diagonal(hops, 0)
        hops[tail, head] = 1
        for middle in range(self._n):
            hops = np.minimum(hops, hops[:, middle, None] + hops[middle])
        if hops[self._source][self._wanted].max(initial=0) >= 2**20:
            raise InfeasibleError("taccl: some rank cannot be reached from another over links and switches")
        kept = []
        for source, wanted in zip(self._source, self._wanted, strict=True):
            targets = np.flatnonzero(wanted)
            excess = (hops[source, tail] + 1)[:, None] + hops[head][:, targets] - hops[source, targets]
            kept.append((excess.min(axis=1) <= 1) & (head != source))
        chunk, way = np.nonzero(np.array(kept))
        return chunk, way

    def solve(self, deadline: float) -> tuple[list[tuple[int, int]], float, bool]:
        """Chunk and way of every send, the gap of the value, and whether time ran out."""
        ways, n, tail, head = self.ways, self._n, self.ways.tail[self._way], self.ways.head[self._way]
        n_choices, n_chunks = len(self._chunk), len(self.leaders)
        start, horizon = self._shortest()
        unit = float(ways.time.max())
        time, most = ways.time[self._way] / unit, horizon / unit
        at = n_choices + self._chunk * n  # column of when the chunk is at rank 0
        last = n_choices + n_chunks * n
        goal = self._wanted.reshape(-1)
        is_source = np.zeros((n_chunks, n), dtype=np.bool_)
        is_source[np.arange(n_chunks), self._source] = True
        rows = _Rows()
        # each rank gets a chunk once, a rank that does not need it at most once
        received = rows.add(goal.astype(float), np.ones(n_chunks * n))
        rows.upper[-1][is_source.reshape(-1)] = 0.0
        rows.lower[-1][is_source.reshape(-1)] = 0.0
        rows.put(received[self._chunk * n + head], np.arange(n_choices), 1.0)
        # who passes a chunk on has got it
        relays = np.flatnonzero(~self._wanted[self._chunk, tail] & (tail != self._source[self._chunk]))
        passed = rows.add(np.full(len(relays), -np.inf), np.zeros(len(relays)))
        rows.put(passed, relays, 1.0)
        for row, choice in zip(passed.tolist(), relays.tolist(), strict=True):
            into = np.flatnonzero((self._chunk == self._chunk[choice]) & (head == tail[choice]))
            rows.put(np.full(len(into), row), into, -1.0)
        later = rows.add(np.full(n_choices, -most), np.full(n_choices, np.inf))
        rows.put(later, at + head, 1.0)
        rows.put(later, at + tail, -1.0)
        rows.put(later, np.arange(n_choices), -(most + time))
        ends = rows.add(np.zeros(n_chunks * n), np.full(n_chunks * n, np.inf))
        rows.put(ends, np.full(n_chunks * n, last), 1.0)
        rows.put(ends, n_choices + np.arange(n_chunks * n), -1.0)
        used = np.flatnonzero(self._load.any(axis=0))
        loads = rows.add(np.zeros(len(used)), np.full(len(used), np.inf))
        rows.put(loads, np.full(len(used), last), 1.0)
        taken, orbit = np.nonzero(self._load[self._way][:, used])
        rows.put(loads[orbit], taken, -self._load[self._way][:, used][taken, orbit] / unit)
        cost = np.zeros(last + 1)
        cost[last] = 1.0
        upper = np.concatenate([np.ones(n_choices), np.full(n_chunks * n, most), [most]])
        upper[n_choices:last][is_source.reshape(-1)] = 0.0
        left = deadline - monotonic()
        if left <= 0:
            raise TimeLimitError("routing program")
        lp = Program("routing program", mip_rel_gap=GAP, time_limit=left)
        lp.load(cost, *rows.sides(), rows.entries, columns_to=upper)
        lp.make_integer(0, n_choices)
        lp.suggest(start / np.concatenate([np.ones(n_choices), np.full(n_chunks * n + 1, unit)]))
        status = lp.run()
        is_known = lp.is_feasible
        values = (lp.solution()[0] if is_known else start)[:n_choices] > 0.5
        gap = lp.integer_gap if is_known else np.inf
        return self._translated(values), gap, status != OPTIMAL

    def _shortest(self) -> tuple[Floats, float]:
        """All columns, in seconds, where every chunk takes its shortest paths; and the value."""
        n, n_choices = self._n, len(self._chunk)
        chosen, arrival = np.zeros(n_choices), np.zeros((len(self.leaders), n))
        for number, source in enumerate(self._source.tolist()):
            mine = np.flatnonzero(self._chunk == number)
            tail, head = self.ways.tail[self._way[mine]], self.ways.head[self._way[mine]]
            at = np.full(n, np.inf)
            at[source] = 0.0
            into = np.full(n, -1, dtype=np.int64)
            for _ in range(n):
                reach = at[tail] + self.ways.time[self._way[mine]]
                for i in np.flatnonzero(reach < at[head] * (1 - 1e-12)):
                    if reach[i] < at[head[i]]:
                        at[head[i]], into[head[i]] = reach[i], i
            for target in np.flatnonzero(self._wanted[number]).tolist():
                while target != source and not chosen[mine[into[target]]]:
                    chosen[mine[into[target]]] = 1.0
                    arrival[number, target] = at[target]
                    target = int(tail[into[target]])
        load = chosen @ self._load[self._way]
        value = max(float(load.max()), float(arrival.max()))
        return np.concatenate([chosen, arrival.reshape(-1), [value]]), value

    def _translated(self, values: BoolArray) -> list[tuple[int, int]]:
        """Sends of all chunks; those that lead to no rank that needs the chunk are left out."""
        ways, sends = self.ways, []
        for number, source in enumerate(self._source.tolist()):
            mine = self._way[values & (self._chunk == number)]
            into = dict(zip(ways.head[mine].tolist(), mine.tolist(), strict=True))
            kept: set[int] = set()
            for target in np.flatnonzero(self._wanted[number]).tolist():
                while target != source and into[target] not in kept:
                    kept.add(into[target])
                    target = int(ways.tail[into[target]])
            images = self._way_image[:, sorted(kept)]
            leader = self.leaders[number]
            for chunk, row in zip(self.chunks.image[:, leader].tolist(), images.tolist(), strict=True):
                sends += [(chunk, way) for way in row]
        return sends


class _Rows:
    """Rows of a program and their entries, block by block."""

    def __init__(self) -> None:
        self.lower: list[Floats] = []
        self.upper: list[Floats] = []
        self._count = 0
        self.entries: list[tuple[Int64Array, Int64Array, Floats]] = []

    def add(self, lower: Floats, upper: Floats) -> Int64Array:
        """Append rows; return their numbers."""
        self.lower.append(lower)
        self.upper.append(upper)
        self._count += len(lower)
        return np.arange(self._count - len(lower), self._count)

    def put(self, rows: Int64Array, columns: Int64Array, values: Floats | float) -> None:
        """Append entries."""
        self.entries.append((rows, columns, np.broadcast_to(np.asarray(values, dtype=float), len(rows))))

    def sides(self) -> tuple[Floats, Floats]:
        """Bounds of all rows."""
        return np.concatenate(self.lower), np.concatenate(self.upper)


class _Order:
    """Sends with their times, each after the one that brings its chunk and after others on its links.

    Parameters
    ----------
    sends : list of (chunk, way)
    ways : Ways
    source : array of int64, shape (C,)
    """

    def __init__(self, sends: list[tuple[int, int]], ways: TacclPaths, source: Int64Array) -> None:
        self.ways = ways
        self.chunk, self.way = np.array(sends, dtype=np.int64).T
        brings = {(chunk, int(ways.head[way])): i for i, (chunk, way) in enumerate(sends)}
        self.before = np.array(
            [
                -1 if source[chunk] == ways.tail[way] else brings[chunk, int(ways.tail[way])]
                for chunk, way in sends
            ]
        )
        self._links = [list(ways.links[way]) for _, way in sends]
        self._start, self._end = np.zeros((2, len(sends)))
        self.order = self._greedy()
        self.neighbours = self._neighbours()

    def _greedy(self) -> list[int]:
        """The order in which sends start; what could start together goes by the way to go and that behind."""
        count, time = len(self.chunk), self.ways.time[self.way]
        to_go, behind = time.copy(), np.zeros(count)
        for i in self._from_sources():
            if self.before[i] >= 0:
                behind[i] = behind[self.before[i]] + time[self.before[i]]
        for i in reversed(list(self._from_sources())):
            if self.before[i] >= 0:
                to_go[self.before[i]] = max(to_go[self.before[i]], time[self.before[i]] + to_go[i])
        free = np.zeros(len(self.ways.bandwidth) + 1)
        lengths = np.diff(self.ways.offset)[self.way]
        links = np.full((count, int(lengths.max())), -1, dtype=np.int64)  # the last of `free` is always so
        for i, taken in enumerate(self._links):
            links[i, : len(taken)] = taken
        came = np.where(self.before < 0, 0.0, np.inf)
        order: list[int] = []
        for _ in range(count):
            starts = np.maximum(came, free[links].max(axis=1))
            soon = np.flatnonzero(starts <= starts.min() * (1 + 1e-9))
            first = int(soon[np.lexsort((behind[soon], -to_go[soon]))[0]])
            order.append(first)
            self._start[first], end = starts[first], starts[first] + time[first]
            self._end[first] = free[self._links[first]] = end
            came[first] = np.inf
            came[self.before == first] = end
        return order

    def _from_sources(self) -> Iterator[int]:
        """Sends, none before the one that brings its chunk."""
        done: set[int] = {-1}
        left = list(range(len(self.chunk)))
        while left:
            level = [i for i in left if int(self.before[i]) in done]
            yield from level
            done.update(level)
            left = [i for i in left if i not in done]

    def _neighbours(self) -> list[tuple[int, int, bool]]:
        """Sends that follow one another on a link, and whether they may be one message."""
        last: dict[int, int] = {}
        pairs: dict[tuple[int, int], int] = {}
        for i in self.order:
            for link in self._links[i]:
                if link in last:
                    pair = last[link], i
                    pairs[pair] = pairs.get(pair, 0) + 1
                last[link] = i
        return [
            (one, other, self.way[one] == self.way[other] and links == len(self._links[one]))
            for (one, other), links in pairs.items()
        ]

    def joined(self, deadline: float) -> list[tuple[int, int]]:
        """Neighbours that the second program makes one message; none if time is up."""
        joints = [(one, other) for one, other, may_join in self.neighbours if may_join]
        if not joints or len(joints) > MAX_JOINTS or not self.ways.latency.any():
            return []
        start, end = self._start, self._end
        unit, most = float(self.ways.time.max()), float(end.max())
        count, n_joints = len(self.chunk), len(joints)
        one, other = np.array(joints).T
        starts, places, leaves, arrives = (n_joints + part * count + np.arange(count) for part in range(4))
        last = n_joints + 4 * count
        latency, transfer = self.ways.latency[self.way] / unit, self.ways.transfer[self.way] / unit
        top = most / unit
        rows = _Rows()

        def after(columns: Int64Array, others: Int64Array, least: Floats | float, joint: float = 0.0) -> None:
            """columns - others + joint * (the joint's variable) >= least"""
            low = np.broadcast_to(np.asarray(least, dtype=float), len(columns)).copy()
            new = rows.add(low, np.full(len(columns), np.inf))
            rows.put(new, columns, 1.0)
            rows.put(new, others, -1.0)
            if joint:
                rows.put(new, np.arange(n_joints), joint)

        brought = np.flatnonzero(self.before >= 0)
        after(starts[brought], arrives[self.before[brought]], 0.0)
        apart = np.array([pair[:2] for pair in self.neighbours if not pair[2]], dtype=np.int64).reshape(-1, 2)
        after(starts[apart[:, 1]], leaves[apart[:, 0]], 0.0)
        after(starts[other], leaves[one], 0.0, 2 * top)
        after(starts[other], starts[one], 0.0)
        after(starts[one], starts[other], -top, -top)
        after(places[other], places[one], 1.0 - count, -float(count))
        after(arrives, leaves, 0.0)
        after(arrives[one], arrives[other], -2 * top, -2 * top)
        new = rows.add(latency, np.full(count, np.inf))
        rows.put(new, leaves, 1.0)
        rows.put(new, starts, -1.0)
        rows.put(new, places, -transfer)
        after(np.full(count, last), arrives, 0.0)
        lower = np.zeros(last + 1)
        lower[places] = 1.0
        upper = np.full(last + 1, 2 * top)
        upper[:n_joints], upper[places] = 1.0, float(count)
        cost = np.zeros(last + 1)
        cost[last] = 1.0
        left = deadline - monotonic()
        if left <= 0:
            return []
        lp = Program("message program", mip_rel_gap=GAP, time_limit=left)
        lp.load(cost, *rows.sides(), rows.entries, columns_from=lower, columns_to=upper)
        lp.make_integer(0, n_joints)
        lp.suggest(
            np.concatenate([np.zeros(n_joints), start / unit, np.ones(count), end / unit, end / unit, [top]])
        )
        lp.run()
        if not lp.is_feasible:
            return []
        return [joint for joint, value in zip(joints, lp.solution()[0], strict=False) if value > 0.5]

    def steps(self, joints: Iterable[tuple[int, int]]) -> Int64Array:
        """The first step that each send can be in, messages as a whole: after what it follows."""
        message = np.arange(len(self.chunk))
        place = positions_of(len(message), np.array(self.order))
        for one, other in sorted(joints, key=lambda joint: int(place[joint[0]])):
            message[other] = message[one]
        members: dict[int, list[int]] = {}
        for i in range(len(self.chunk)):
            members.setdefault(int(message[i]), []).append(i)
        earlier: dict[int, set[int]] = {one: set() for one in members}
        for i in range(len(self.chunk)):
            if self.before[i] >= 0:
                earlier[int(message[i])].add(int(message[self.before[i]]))
        for one, other, _ in self.neighbours:
            if message[one] != message[other]:
                earlier[int(message[other])].add(int(message[one]))
        step: dict[int, int] = {}
        while len(step) < len(members):
            for one in [one for one in members if one not in step and earlier[one] <= step.keys()]:
                step[one] = max((step[other] + 1 for other in earlier[one]), default=0)
        return np.array([step[int(one)] for one in message])


def taccl_sends(
    topology: Topology, ranks: Int64Array, chunks: Chunks, group: Translations, alpha_s: float
) -> ChunkSends:
    """Route, order and join chunks, by HiGHS.

    Parameters
    ----------
    topology : Topology
    ranks : array of int64, shape (N,)
        Their nodes; others are not passed, switches are.
    chunks : Chunks
    group : Translations
        That leaves the chunks as they are.
    alpha_s : float
        Seconds of a send besides bytes and latencies of links.

    Raises
    ------
    ScheduleError
        If the program would be too large.
    InfeasibleError
        If a rank cannot be reached.
    TimeLimitError
        If time is up before it begins.

    Notes
    -----
    As published but for these: HiGHS stands for Gurobi; in place of a sketch by hand, variables are tied by
    the fabric's own symmetry, and chunks take at most a hop more than need be; a switch is what its links
    carry. Steps are those of the order: a send's step comes after those of the sends that it follows.
    """
    limit = context().deadline or monotonic() + TIME_LIMIT_S
    begin = monotonic()
    ways = TacclPaths(topology, ranks, chunks.size_bytes, alpha_s)
    number = {links: way for way, links in enumerate(ways.links)}
    images = [
        [number.get(tuple(row[list(links)].tolist()), -1) for links in ways.links] for row in group.links
    ]
    way_image, links = np.array(images, dtype=np.int64), group.links.astype(np.int64)
    if way_image.min(initial=0) < 0:  # ways over switches that the group does not keep
        way_image, links = way_image[:1], links[:1]
        chunks = Chunks(chunks.source, chunks.wanted, chunks.image[:1], chunks.size_bytes)
    context().announce("integer programs")
    routing = _Routing(topology, ways, chunks, links, way_image)
    sends, gap, is_late = routing.solve(begin + _ROUTING_SHARE * (limit - begin))
    order = _Order(sends, ways, chunks.source)
    step = order.steps(order.joined(limit))
    return ChunkSends(order.chunk, order.way, step, ways.links, gap, is_late)


def gather_chunks(ranks: Int64Array, parts: int, group: Translations, size_bytes: float) -> Chunks:
    """Every rank's shard in equal parts, for all others."""
    n, count = len(ranks), len(ranks) * parts
    source = np.repeat(np.arange(n), parts)
    rank_of = positions_of(int(group.nodes.shape[1]), ranks)
    image = rank_of[group.nodes[:, ranks]].repeat(parts, axis=1) * parts + np.arange(count) % parts
    wanted = source[:, None] != np.arange(n)
    return Chunks(source, wanted, image, size_bytes / count)


def exchange_chunks(
    ranks: Int64Array, collective: Collective, parts: int, group: Translations, size_bytes: float
) -> Chunks:
    """Demands of every rank for every other, in equal parts."""
    n = len(ranks)
    source, target = np.nonzero(collective.pair_demands.between)
    number = positions_of(n * n, source * n + target)
    rank_of = positions_of(int(group.nodes.shape[1]), ranks)[group.nodes[:, ranks]]
    image = number[rank_of[:, source] * n + rank_of[:, target]].repeat(parts, axis=1)
    image = image * parts + np.arange(len(source) * parts) % parts
    wanted = target.repeat(parts)[:, None] == np.arange(n)
    return Chunks(source.repeat(parts), wanted, image, size_bytes / (n * parts))


def _steps_of(sends: ChunkSends, n_ranks: int, parts: int, homes: Sequence[int] | None = None) -> Steps:
    """Steps of chunks that are parts of shards; of links where every way is one, else of ways."""
    is_direct = all(len(links) == 1 for links in sends.way_links)
    link = np.array([links[0] for links in sends.way_links])[sends.way] if is_direct else sends.way
    shard, part = np.divmod(sends.chunk, parts)
    columns = [shard, link, sends.step, part, part + 1]
    steps = steps_from_sends(Direction.BROADCAST, n_ranks, parts, columns, homes=homes)
    if is_direct:
        return steps
    return replace(
        steps,
        way_offset=frozen(offsets_of([*map(len, sends.way_links)]), np.int64),
        way_links=frozen([link for links in sends.way_links for link in links], np.int32),
    )


def taccl_gather(
    topology: Topology, collective: Collective, *, chunks: int, size_bytes: int, alpha_s: float
) -> ProgramResult:
    """An allgather by the programs, a reduce-scatter by that of the transposed fabric backwards, or both."""
    ranks, found = np.array(collective.ranks, dtype=np.int64), list[ChunkSends]()

    def gather(fabric: Topology) -> Steps:
        group = translations_of(fabric, ranks)
        wanted = gather_chunks(ranks, chunks, group, size_bytes)
        sends = taccl_sends(fabric, ranks, wanted, group, alpha_s)
        found.append(sends)
        return _steps_of(sends, len(ranks), chunks)

    kind = collective.kind
    reduce = reverse(gather(replace(topology.transpose(), name=topology.name))) if kind.reduces else None
    schedule = StepSchedule(kind, reduce=reduce, broadcast=gather(topology) if kind.broadcasts else None)
    return ProgramResult(schedule, max(one.gap for one in found), any(one.is_late for one in found))


def taccl_exchange(
    topology: Topology, collective: Collective, *, chunks: int, size_bytes: int, alpha_s: float
) -> ProgramResult:
    """An all-to-all by the programs, to which all demands are equal."""
    demands = collective.pair_demands.between
    ranks = np.array(collective.ranks, dtype=np.int64)
    group = translations_of(topology, ranks, demands)
    wanted = exchange_chunks(ranks, collective, chunks, group, size_bytes)
    sends = taccl_sends(topology, ranks, wanted, group, alpha_s)
    source, target = np.nonzero(demands)
    steps = _steps_of(sends, len(ranks), chunks, source.tolist())
    return ProgramResult(ExchangeSchedule(steps, frozen(target, np.int32)), sends.gap, sends.is_late)
