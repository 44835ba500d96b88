"""What may be asked of the topology finder besides a size, a degree, a network and a workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.searches.fresh import USUAL_SEARCH, SearchLimit


@dataclass(frozen=True)
class DesignOptions:
    """How the frontier is found, and what else is told of it.

    Parameters
    ----------
    bidirectional : bool
        Only fabrics whose links come in opposite pairs.
    reconfiguration_delay_s : float, optional
        Time to change the topology; also considers a topology for each call.
    alltoall : AlltoallRates
        Whether to compute an optimal flow on each fabric of the frontier. All-to-alls of the workload over
        all nodes are told by the flows if every fabric has one, else by distances.
    search : SearchLimit, optional
        Search for better graphs of this size and degree than the libraries have. Default: about three
        seconds above 64 nodes.
    seed : int
        Of that search.
    topology : str, optional
        Only this fabric, by its expression or in the notation of papers.
    cache : Path, optional
        Directory of kept rates; default the user's.
    use_cache : bool
    """

    bidirectional: bool = False
    reconfiguration_delay_s: float | None = None
    alltoall: AlltoallRates = AlltoallRates.FLOW
    search: SearchLimit | None = USUAL_SEARCH
    seed: int = 0
    topology: str | None = None
    cache: Path | None = None
    use_cache: bool = True
