"""How busy each link is over the time of a simulated collective, for a page."""

from __future__ import annotations

import base64

import numpy as np

from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.simulation.picture import MAX_LANES, utilisation_over_time
from treadle.simulation.result import Simulation

BINS = 200
"""Equal parts of the time."""


def timeline(simulation: Simulation, fabric: DrawnFabric) -> dict[str, object]:
    """The busiest links, each as one byte a part of the time: 255 is busy all through it.

    Parameters
    ----------
    simulation : Simulation
    fabric : DrawnFabric
        Of the same topology.
    """
    graph = simulation.graph
    shares = utilisation_over_time(simulation, BINS)
    used = np.flatnonzero(simulation.busy)
    order = used[np.argsort(-simulation.busy[used], kind="stable")][:MAX_LANES]
    chosen = np.sort(order)
    levels = np.ceil(np.clip(shares[chosen], 0, 1) * 255).astype(np.uint8)
    n_links = graph.topology.n_links
    return {
        "bins": BINS,
        "seconds": float(simulation.finish * simulation.tick_s),
        "names": [graph.resource_name(link) for link in chosen.tolist()],
        "lines": [int(fabric.signed_line[link]) if link < n_links else 0 for link in chosen.tolist()],
        "shares": [round(float(simulation.utilisation[link]), 4) for link in chosen.tolist()],
        "levels": base64.b64encode(levels.tobytes()).decode(),
        "leftOut": f"the {len(chosen)} busiest of {len(used)} links" if len(chosen) < len(used) else "",
    }
