"""Files that name the collectives which run at once (TOML)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from treadle.errors import FormatError, TreadleError
from treadle.input_files import read_input_text
from treadle.planning.problem import ProblemOptions, pose, resolve_kind
from treadle.schedules.collective import Collective
from treadle.schedules.jobs import Job, check_jobs
from treadle.topologies.topology import Topology
from treadle.units import parse_size

MAX_FILE_BYTES = 2**20
MAX_JOBS = 4096
_MAX_LINE = 1000
"""Characters; a dotted key costs memory by the square of its parts."""

_KEYS = {"name", "kind", "ranks", "root", "forward", "mesh", "axes", "size", "weight"}
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-6, 2**40


def read_jobs(path: Path | str, topology: Topology) -> tuple[Job, ...]:
    """Read a file of jobs: a table ``[[job]]`` for each.

    Parameters
    ----------
    path : Path or str
        With the keys ``kind``, and optionally ``name``, ``ranks``, ``root``, ``forward``, ``mesh`` and
        ``axes`` (a job for each group), ``size`` (such as ``"64MB"``, of all jobs or of none) and ``weight``.
    topology : Topology

    Raises
    ------
    FormatError
        If the file cannot be read, or says something else; one line with the job's place.
    """
    source = str(path)
    text = read_input_text(path, MAX_FILE_BYTES, expected="jobs as TOML")
    if any(len(line) > _MAX_LINE for line in text.splitlines()):
        raise FormatError(f"a line is longer than {_MAX_LINE} characters", source=source)
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not TOML: {error}", source=source) from None
    tables = values.get("job")
    if set(values) != {"job"} or not isinstance(tables, list) or not tables:
        raise FormatError(f"expected tables [[job]] and nothing else, found {_listed(values)}", source=source)
    if len(tables) > MAX_JOBS:
        raise FormatError(f"{len(tables)} jobs, expected at most {MAX_JOBS}", source=source)
    jobs: list[Job] = []
    for number, table in enumerate(tables):
        place = f"{source}: job {number + 1}"
        try:
            jobs += _jobs_of(table, number, topology)
        except TreadleError as error:
            raise FormatError(str(error), source=place) from None
    sized = {isinstance(table.get("size"), str) for table in tables}
    if len(sized) > 1:
        raise FormatError(
            "some jobs have a size and others not; give all of them one, or none", source=source
        )
    try:
        check_jobs(topology, jobs)
    except TreadleError as error:
        raise FormatError(str(error), source=source) from None
    return tuple(jobs)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(repr(key)[:40] for key in list(values)[:5]) or "nothing"


def _jobs_of(table: Any, number: int, topology: Topology) -> Iterator[Job]:
    if not isinstance(table, dict) or set(table) - _KEYS:
        extra = sorted(set(table) - _KEYS) if isinstance(table, dict) else [table]
        raise FormatError(f"unknown {str(extra[0])[:40]!r}; expected some of {', '.join(sorted(_KEYS))}")
    kind = resolve_kind(_text(table, "kind", needed=True))
    name = _text(table, "name") or f"{number + 1}:{kind}"
    weight = _weight(table)
    collective = _posed(table, kind.value, topology)
    if collective.groups is None:
        yield Job(name, collective, weight)
        return
    for group in range(len(collective.groups)):
        yield Job(f"{name}[{group}]", collective.member(group), weight)


def _posed(table: Mapping[str, Any], kind: str, topology: Topology) -> Collective:
    """The collective on the nodes of the whole fabric; nodes that do not take part are left out of it."""
    forward = table.get("forward", False)
    if not isinstance(forward, bool):
        raise FormatError(f"forward: {forward!r}, expected true or false")
    # posed as if all forwarded, so that the fabric and its numbers stay as they are
    options = {
        "ranks": _ranks(table),
        "root": _root(table),
        "mesh": _text(table, "mesh") or None,
        "axes": _text(table, "axes") or None,
        "forward": True,
    }
    posed = pose(topology, kind, **cast(ProblemOptions, options)).collective
    if forward:
        return posed
    return Collective(
        posed.kind, posed.ranks, posed.root, forwarders=(), demands=posed.demands, groups=posed.groups
    )


def _ranks(table: Mapping[str, Any]) -> str | list[int] | None:
    ranks = table.get("ranks")
    if ranks is None or isinstance(ranks, str):
        return ranks
    if isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
        return ranks
    raise FormatError(f"ranks: {str(ranks)[:40]}, expected text such as '0-7' or a list of integers")


def _root(table: Mapping[str, Any]) -> int | str | None:
    root = table.get("root")
    if root is None or type(root) is int or isinstance(root, str):
        return root
    raise FormatError(f"root: {str(root)[:40]}, expected a rank or a node's name")


def _weight(table: Mapping[str, Any]) -> Fraction:
    """Size times weight: jobs of equal weight end together."""
    weight = table.get("weight", 1)
    if (
        isinstance(weight, bool)
        or not isinstance(weight, int | float)
        or not _LEAST_WEIGHT <= weight <= _MOST_WEIGHT
    ):
        raise FormatError(f"weight: {str(weight)[:40]}, expected a number from 1e-6 to 2**40")
    exact = Fraction(str(weight)) if isinstance(weight, float) else Fraction(weight)
    if "size" not in table:
        return exact
    size = parse_size(_text(table, "size", needed=True))
    if size < 1:
        raise FormatError("size: expected at least 1 byte")
    return exact * size


def _text(table: Mapping[str, Any], key: str, *, needed: bool = False) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or (needed and not value):
        raise FormatError(
            f"{key}: {str(value)[:40]!r}, expected text" if key in table else f"{key} is missing"
        )
    return value
