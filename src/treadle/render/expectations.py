"""What the machine behind a fabric is expected to do, next to what is possible on the fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from treadle.render.problems import both_values
from treadle.render.quantities import Rates, microseconds
from treadle.render.rows import Row, Table, facts, fields_of, framed, row
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.units import format_size


def expectation_rows(
    topology: Topology, collective: Collective, rates: Rates, *, nvls: bool = True
) -> Iterator[Row]:
    """The library's choice at 1 GB, and the optimum with NVLink SHARP where NCCL uses it."""
    # here, as bounds of fabrics without a machine need none of it
    from treadle.schedulers.expectations import LARGE_BYTES, Expectations, expectations_of

    found = expectations_of(topology, collective)
    if not isinstance(found, Expectations) or found.model is None:
        return
    (pick,) = found.picks
    reached = Fraction(LARGE_BYTES) / Fraction(pick.time_s)
    at = f"{rates.both(reached, collective)} at {format_size(LARGE_BYTES)}"
    if found.in_network is not None and nvls:
        best = found.in_network.algbw
        text = f"{rates.both(best, collective)} with NVLink SHARP, which NCCL uses by default"
        yield Row("optimum", text, both_values(best, collective, "nvls_optimal_"))
    yield row(found.model.name, f"{pick}: {at}; predicted by {found.model}")
    yield library_values(found)


def library_values(found: object) -> Row:
    """The library's version, assumed channels and picks, for JSON."""
    from treadle.schedulers.expectations import Expectations

    assert isinstance(found, Expectations)
    assert found.model is not None
    picks = [
        {"size_bytes": size, **fields_of(pick, "algorithm", "protocol", "channels", "time_s")}
        for size, pick in zip(found.sizes, found.picks, strict=True)
    ]
    model = found.model
    return facts(
        library={"name": model.name, "version": model.version, "graph": str(model.graph), "picks": picks}
    )


def library_rows(
    topology: Topology,
    collective: Collective,
    sizes: Sequence[int],
    simulated: Callable[[str, int], float | None] | None = None,
) -> Iterator[Row | Table]:
    """The library's choice at each size; with `simulated` Treadle's times of its schedules, in seconds."""
    from treadle.schedulers.expectations import Expectations, expectations_of

    found = expectations_of(topology, collective, sizes)
    if not isinstance(found, Expectations) or found.model is None:
        return
    name = found.model.name.upper()
    cells = []
    for size, pick in zip(sizes, found.picks, strict=True):
        own = None if simulated is None else simulated(pick.algorithm, size)
        more = [] if simulated is None else ["-" if own is None else microseconds(own)]
        cells.append([format_size(size), str(pick), microseconds(pick.time_s), *more])
    headings = ["size", f"{name} picks", f"{name}'s model (us)", "simulated (us)"]
    yield from framed(Table(headings[: 3 if simulated is None else 4], cells, 2))
    yield row(found.model.name, f"choice and time predicted by {found.model}")
    if simulated is not None:
        yield row("simulated", f"Treadle's simulation of the schedule that {name} picks")
    yield library_values(found)
