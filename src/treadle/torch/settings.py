"""Settings of the backend: options given to torch, or environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.errors import FormatError, TopologyError
from treadle.planning import algorithm_names
from treadle.runtime.measured_sizes import parse_size
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology
from treadle.torch.gpu.gpu_settings import GpuSettings, checked, gpu_settings

SLICE_BYTES = 2**21
"""Default largest message: below, the cost of a message in Python shows; above, trees pipeline less."""

_LEAST_SLICE_BYTES = 2**12


@dataclass(frozen=True)
class Options:
    """Options of the backend: ``init_process_group("treadle", pg_options=treadle.torch.Options(...))``.

    What is left out comes from the environment variable in brackets, if that is set.

    Parameters
    ----------
    fabric : Topology or str, optional
        [TREADLE_FABRIC] A fabric, a catalogue expression (``torus:2,2``) or a file. Its compute nodes are the
        ranks of the whole job, in order. Default: all ranks have links to all others.
    plans : str or Path, optional
        [TREADLE_PLANS] A directory of plan files, or one, used where they answer; read by a group's rank 0
        only. In a plan of concurrent groups each group uses its own part.
    algorithm : str, optional
        [TREADLE_ALGORITHM] What synthesises the other plans, in names of ``treadle solve --algorithm``:
        ``collective=name`` pairs separated by commas, or one name for all collectives that it supports.
    time_limit_s : float
        Seconds after which the synthesis of one plan takes a quick schedule instead.
    slice_bytes : int, optional
        [TREADLE_SLICE, with a unit] Largest message, more or less.
    gpu : GpuSettings, optional
        [TREADLE_GPU, TREADLE_GPU_MEMORY, _COST_MODEL, _PROTOCOL, _LANES, _THREADS, _SLICE, _WINDOW] How calls
        with tensors of GPUs are made; the same at all ranks.

    Examples
    --------
    >>> Options(fabric="ring:4", algorithm="allreduce=ring,allgather=bfb").algorithm
    'allreduce=ring,allgather=bfb'
    """

    fabric: Topology | str | None = None
    plans: str | Path | None = None
    algorithm: str | None = None
    time_limit_s: float = 60.0
    slice_bytes: int | None = None
    gpu: GpuSettings | None = None


@dataclass(frozen=True)
class Settings:
    """Options made out and checked.

    Parameters
    ----------
    fabric : Topology, optional
        None: all ranks have links to all others.
    plans : Path, optional
    algorithm : str, optional
        For the kinds that it supports.
    algorithms : mapping of CollectiveKind to str
        For these kinds and no other algorithm; the rest use `algorithm` or Treadle's default.
    time_limit_s : float
    slice_bytes : int
    gpu : GpuSettings
    """

    fabric: Topology | None
    plans: Path | None
    algorithm: str | None
    algorithms: Mapping[CollectiveKind, str]
    time_limit_s: float
    slice_bytes: int
    gpu: GpuSettings = field(default_factory=GpuSettings)


def settings_of(options: Options, environment: Mapping[str, str] = os.environ) -> Settings:
    """Options, with the environment where they say nothing.

    Raises
    ------
    FormatError, TopologyError
        If a value is malformed.
    """

    def given(value: object, variable: str) -> Any:
        return (environment.get(variable) or None) if value is None else value

    fabric, plans = given(options.fabric, "TREADLE_FABRIC"), given(options.plans, "TREADLE_PLANS")
    slice_bytes = given(options.slice_bytes, "TREADLE_SLICE")
    if slice_bytes is None:
        slice_bytes = SLICE_BYTES
    elif isinstance(slice_bytes, str):
        slice_bytes = parse_size(slice_bytes)
    if slice_bytes < _LEAST_SLICE_BYTES:
        raise FormatError(f"slice of {slice_bytes} bytes: expected at least {_LEAST_SLICE_BYTES}")
    if not options.time_limit_s > 0:
        raise FormatError(f"time_limit_s {options.time_limit_s}: expected a positive number of seconds")
    general, chosen = _algorithms(options.algorithm or environment.get("TREADLE_ALGORITHM") or "")
    return Settings(
        fabric=parse(fabric) if isinstance(fabric, str) else fabric,
        plans=None if plans is None else Path(plans),
        algorithm=general,
        algorithms=chosen,
        time_limit_s=options.time_limit_s,
        slice_bytes=slice_bytes,
        gpu=gpu_settings(environment) if options.gpu is None else checked(options.gpu),
    )


def fabric_of(settings: Settings, n_ranks: int) -> Topology:
    """The fabric of a job of `n_ranks` ranks; TopologyError if it has not as many compute nodes."""
    if settings.fabric is None and n_ranks == 1:  # no graph of the catalogue; gloo serves such groups
        alone = TopologyBuilder("one rank")
        alone.compute("rank0")
        return alone.build()
    if settings.fabric is None:
        return parse(f"complete:{n_ranks}")
    found = len(settings.fabric.compute_nodes)
    if found != n_ranks:
        raise TopologyError(
            f"{settings.fabric.name}: has {found} compute nodes, the job has {n_ranks} ranks; "
            f"set TREADLE_FABRIC to a fabric of {n_ranks} or start {found} processes"
        )
    return settings.fabric


def _algorithms(text: str) -> tuple[str | None, dict[CollectiveKind, str]]:
    """The algorithm for all kinds, and those for one kind each."""
    general: str | None = None
    chosen: dict[CollectiveKind, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, equals, last = (piece.strip() for piece in part.partition("="))
        name = last if equals else first
        kinds = [kind for kind in CollectiveKind if kind.value == first]
        if name not in algorithm_names() or bool(equals) != bool(kinds):
            raise FormatError(
                f"algorithm {part[:60]!r}: expected NAME or COLLECTIVE=NAME, where NAME is one of "
                f"{', '.join(algorithm_names())} and COLLECTIVE one of {', '.join(CollectiveKind)}"
            )
        if kinds:
            chosen[kinds[0]] = name
        elif general is None:
            general = name
        else:
            raise FormatError(f"algorithm: both {general} and {name} for all collectives; give one")
    return general, chosen
