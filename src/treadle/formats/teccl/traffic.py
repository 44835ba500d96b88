"""TE-CCL's schedules as messages: a send for each hop, in the order of the epochs."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from treadle.errors import FormatError
from treadle.formats.teccl.reader import MAX_UNITS, TecclFile, read
from treadle.formats.verdict import Terms
from treadle.program.foreign.timed_sends import SendsFrame, TimedSend, program_of_sends
from treadle.program.foreign.traffic import Traffic
from treadle.schedules.collective import CollectiveKind

_MOST_CHUNKS = 2**24


def traffic(data: bytes, terms: Terms) -> Traffic:
    """What the GPUs send each other; GPU numbers in rising order are the ranks."""
    file, source = read(data, terms), terms.source or "TE-CCL schedule"
    rank = {gpu: number for number, gpu in enumerate(file.gpus)}
    frame, sends = (_exchange if file.is_alltoall else _gather)(file, rank, source)
    notes = ["epochs give the order of its sends; when they start the simulation says"]
    if file.units == MAX_UNITS:
        notes.append(f"volumes are rounded to {MAX_UNITS} parts of a chunk")
    return program_of_sends(frame, sends, notes=tuple(notes))


def _gather(file: TecclFile, rank: dict[int, int], source: str) -> tuple[SendsFrame, list[TimedSend]]:
    chunks: dict[int, set[int]] = defaultdict(set)
    for flow in file.flows:
        chunks[flow.source].add(flow.chunk)
    per_shard = max(len(found) for found in chunks.values())
    n = len(file.gpus)
    _check_chunks(n * per_shard, source)
    place = {
        (gpu, chunk): rank[gpu] * per_shard + number
        for gpu, found in chunks.items()
        for number, chunk in enumerate(sorted(found))
    }
    sends = [
        TimedSend(
            flow.hop.epoch, rank[flow.hop.tail], rank[flow.hop.head], place[flow.source, flow.chunk], 1,
            way=flow.hop.via,
        )
        for flow in file.flows
    ]  # fmt: skip
    offset = range(0, n * per_shard + 1, per_shard)
    return SendsFrame(CollectiveKind.ALLGATHER, n, n * per_shard, offset), sends


def _exchange(file: TecclFile, rank: dict[int, int], source: str) -> tuple[SendsFrame, list[TimedSend]]:
    """Each chunk is cut into the units of its paths' volumes; a path carries some of them all the way."""
    n, units = len(file.gpus), file.units
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for demand in file.demands:
        numbers[demand.source, demand.target].append(demand.chunk)
    shard = units * max(len(found) for found in numbers.values())
    _check_chunks(n * n * shard, source)
    sends: list[TimedSend] = []
    for demand in file.demands:
        pair = rank[demand.source] * n + rank[demand.target]
        place = sorted(numbers[demand.source, demand.target]).index(demand.chunk)
        first = pair * shard + place * units
        shares = [path[0].volume for path in demand.paths]
        for path, count in zip(demand.paths, _whole(shares, units), strict=True):
            if not count:
                continue
            sends += [
                TimedSend(hop.epoch, rank[hop.tail], rank[hop.head], first, count, way=hop.via)
                for hop in path
            ]
            first += count
    return SendsFrame(CollectiveKind.ALLTOALL, n, n * shard, range(0, n * n * shard + 1, shard)), sends


def _whole(shares: list[Fraction], units: int) -> list[int]:
    """Shares of a chunk in whole units that add up to it; what rounding leaves goes to the largest rests."""
    total = max(Fraction(1), sum(shares, Fraction(0)))  # a little more than all of it, where solvers round
    shares = [share / total for share in shares]
    counts = [int(share * units) for share in shares]
    rests = sorted(range(len(shares)), key=lambda place: counts[place] - shares[place] * units)
    for place in rests[: max(0, units - sum(counts))]:
        counts[place] += 1
    return counts


def _check_chunks(count: int, source: str) -> None:
    if count > _MOST_CHUNKS:
        raise FormatError(f"{count} chunks, expected at most {_MOST_CHUNKS}", source=source)
