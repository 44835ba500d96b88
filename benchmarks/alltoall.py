"""The optimal all-to-all rate: CPU seconds to a certified gap, with and without symmetry, after a failure.

    python -m benchmarks.alltoall             # about a minute
    python -m benchmarks.alltoall --quick     # up to 256 nodes

CPU seconds of this process over all its threads, from the call to the checked certificate. "plain" leaves
symmetry and exact optima aside.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, flow_instance, optimal_rate
from treadle.synthesis.alltoall.rate.pdhg import pdhg_rate
from treadle.topologies import parse
from treadle.topologies.topology import Topology

CASES = (
    ("torus(3, 3, 3)", 1e-3),
    ("generalized_kautz(4, 27)", 1e-3),
    ("generalized_kautz(4, 128)", 1e-4),
    ("generalized_kautz(4, 256)", 1e-4),
    ("jellyfish(256, 4)", 1e-3),
    ("dgx_a100(16)", 1e-3),
    ("hypercube(10)", 1e-3),
    ("torus(10, 10, 10)", 1e-3),
    ("circulant(1000, 22, 23)", 1e-3),
    ("generalized_kautz(4, 512)", 1e-3),
    ("generalized_kautz(4, 1000)", 1e-3),
    ("jellyfish(1000, 4)", 1e-3),
)
FAILED_LINKS = (7, 100, 501)


def timed(call: Callable[[], RateResult]) -> tuple[RateResult, float]:
    """Result and CPU seconds of a call."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def plain(topology: Topology, gap: float, start: RateResult | None = None) -> RateResult:
    """By iteration on every source."""
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    return pdhg_rate(flow_instance(topology, collective), gap=gap, start=start)


def rates_table(most: int) -> Table:
    """Rates of fabrics with up to `most` ranks."""
    table = Table("fabric", "gap asked", "gap", "F bytes/s", "1/F s", "method", "s", "plain s")
    for name, gap in CASES:
        topology = parse(name)
        if len(topology.compute_nodes) > most:
            continue
        collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
        found, seconds = timed(lambda t=topology, c=collective, g=gap: optimal_rate(t, c, gap=g))
        _, apart = timed(lambda t=topology, g=gap: plain(t, g))
        table.add_row(
            name,
            f"{gap:g}",
            f"{found.gap:.1e}",
            f"{found.rate:.8g}",
            f"{1 / found.rate:.6g}",
            found.method,
            f"{seconds:.2f}",
            f"{apart:.2f}",
        )
    return table


def failures_table() -> Table:
    """One link fails at N = 256: from the previous result, and from scratch."""
    table = Table("fabric", "failed link", "F bytes/s", "from before s", "from scratch s")
    for name in ("generalized_kautz(4, 256)", "jellyfish(256, 4)"):
        whole = parse(name)
        before = plain(whole, 1e-3)
        for link in FAILED_LINKS:
            kept = np.arange(whole.n_links) != link
            broken = replace(
                whole,
                tails=whole.tails[kept],
                heads=whole.heads[kept],
                bandwidths=whole.bandwidths[kept],
                latencies_ns=whole.latencies_ns[kept],
            )
            warm, seconds = timed(lambda t=broken, b=before: plain(t, 1e-3, b))
            _, cold = timed(lambda t=broken: plain(t, 1e-3))
            table.add_row(name, whole.link_name(link), f"{warm.rate:.8g}", f"{seconds:.2f}", f"{cold:.2f}")
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="only up to 256 ranks")
    options = parser.parse_args()
    console = Console(file=sys.stdout, width=140)
    console.print(rates_table(256 if options.quick else 10**4))
    console.print(failures_table())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"peak memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
