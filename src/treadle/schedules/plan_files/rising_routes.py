"""Members of routes whose layer changes on the way: the layer of every hop.

``rising`` in the manifest lists the numbers of these routes; ``routes/K/hop_layer.npy`` has the layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import FormatError
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.plan_files.manifest_values import read_list, read_whole
from treadle.schedules.plan_files.members import MemberReader


def rising_member(number: int) -> str:
    """Name of the member of some routes."""
    return f"routes/{number}/hop_layer.npy"


def rising_numbers(routes: Sequence[RouteSchedule]) -> list[int]:
    """Which of them change the layer."""
    return [number for number, part in enumerate(routes) if part.hop_layer.size]


def read_rising_numbers(value: Any, n_routes: int) -> dict[str, int]:
    """Numbers of the routes that do, by member; FormatError if one is none, or given twice."""
    numbers = [read_whole(item, "rising") for item in read_list(value, "rising")]
    if len(set(numbers)) < len(numbers) or not all(0 <= number < n_routes for number in numbers):
        raise FormatError(f"rising: expected numbers from 0 to {n_routes - 1}, each once")
    return {rising_member(number): number for number in numbers}


def read_hop_layers(members: MemberReader, number: int) -> dict[str, NDArray[Any]]:
    """The field of `RouteSchedule` that it is."""
    return {"hop_layer": members.array(rising_member(number), np.int32)}
