"""Drawing of a value in a notebook."""

from __future__ import annotations

from typing import Any

from treadle.drawing.draw import painting_of
from treadle.errors import ScheduleError
from treadle.schedules.plan import plan_of
from treadle.topologies.topology import Topology
from treadle.viz.svg import svg

_MOST_NODES = 5000
"""Largest fabric drawn whenever a cell ends with one: takes a tenth of a second."""


def draw_inline(value: Any) -> bytes:
    """Draw a fabric, or the link loads of a plan, as SVG; nothing for other values and very large fabrics.

    Parameters
    ----------
    value : object
        A fabric, a plan, a result with a plan, or what has a method `fabric_to_draw`.
    """
    plan = plan_of(value)
    told = getattr(value, "fabric_to_draw", None)
    own = value if isinstance(value, Topology) else None if plan is None else plan.topology
    topology = told() if told else own
    if topology is None or not 0 < topology.n_nodes <= _MOST_NODES:
        return b""
    try:
        return svg(painting_of(topology if plan is None else plan, "")).encode()
    except ScheduleError:  # claims that are false, and loads that are not drawn
        return svg(painting_of(topology, "")).encode()
