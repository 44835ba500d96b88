"""Boxes of different sizes whose ranks bind: layers in which some of them are tight."""

from __future__ import annotations

import numpy as np

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.factored import RelayTrees, TableTrees
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.components import Split, split_layers
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.topologies.catalogue.platforms import gb200_nvl72
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_nodes
from treadle.unsupported import Unsupported
from treadle.verification.factored.height import forest_height
from treadle.verification.schedules import verify


def racks(sizes: tuple[int, ...], nvlink: int, nic: int) -> Topology:
    """Racks of these sizes, which are what failures leave of larger ones."""
    most = max(sizes)
    failed = [f"rack{rack}.gpu{most - 1 - i}" for rack, size in enumerate(sizes) for i in range(most - size)]
    return with_failed_nodes(
        gb200_nvl72(len(sizes), most, nvlink_bandwidth=nvlink, nic_bandwidth=nic), *failed
    )


def test_trees_are_divided_evenly_between_ranks() -> None:
    """Equal racks: as many in each layer for all; else as evenly as integers allow."""
    even, odd = (racks(sizes, 100, 50) for sizes in ((12,) * 4, (12, 11, 12, 12)))
    for topology, spread in ((even, 0), (odd, 2)):
        problem = instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
        found = split_layers(problem, detect(problem))
        assert isinstance(found, Split)
        per_layer = np.stack([part.multiplicities for part in found.parts])
        assert np.ptp(per_layer, axis=1).max() <= spread
        assert set(per_layer.sum(axis=0).tolist()) == {found.trees}
        capacities = np.stack([part.capacities for part in found.parts]).sum(axis=0)
        assert capacities.tolist() == [found.scale * b for b in topology.bandwidths.tolist()]


def test_many_failed_gpus_of_many_racks() -> None:
    """Half of the racks lack a GPU or two; few low trees in small tables attain what one GPU takes in."""
    failed = [f"rack{rack}.gpu{rack % 72}" for rack in range(0, 64, 2)]
    failed += [f"rack{rack}.gpu{(rack + 9) % 72}" for rack in range(0, 64, 18)]
    topology = with_failed_nodes(gb200_nvl72(64), *failed)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported), str(found)
    report = verify(topology, collective, found.schedule, claimed_algbw=found.optimum.algbw)
    assert not report.violations
    assert report.algbw == found.optimum.algbw
    assert found.trees_per_root < 256
    layers = found.parts[0].forest.layers
    outermost = [layer.pieces[layer.kind[0]].trees for layer in layers]
    assert [type(trees) for trees in outermost] == [
        RelayTrees,
        RelayTrees,
        RelayTrees,
        TableTrees,
        RelayTrees,
    ]
    widths = [trees.in_links.shape[1] for trees in outermost if isinstance(trees, RelayTrees)]
    assert widths == [72, 2, 2, 1]
    assert forest_height(layers).hops <= 3
