"""Switched clusters by shape rather than vendor. Bandwidths are bytes/s per direction."""

from __future__ import annotations

from treadle.errors import TopologyError
from treadle.topologies.catalogue.platforms import GB_PER_S
from treadle.topologies.families import Each, Families, LinkFamily, NodeFamily, Part
from treadle.topologies.limits import check_count, check_counts, check_size
from treadle.topologies.naming import call_expression
from treadle.topologies.topology import Topology


def _uplink(function: str, downlinks: int, nic: int, uplinks: int, oversubscription: int) -> int:
    """Bandwidth of one of `uplinks` equal uplinks that share `downlinks` * `nic` / `oversubscription`."""
    check_count(function, "oversubscription", oversubscription)
    bandwidth = downlinks * nic // (uplinks * oversubscription)
    if bandwidth < 1:
        reason = f"{uplinks} uplinks at {oversubscription}:1 leave less than 1 byte/s each"
        raise TopologyError(f"{function}: {reason}; use fewer spines or a smaller oversubscription")
    return bandwidth


def leaf_spine(
    leaves: int,
    spines: int,
    *,
    gpus_per_leaf: int = 8,
    oversubscription: int = 1,
    nic_bandwidth: int = 50 * GB_PER_S,
) -> Topology:
    """Two levels of switches: every leaf joined to every spine, single-homed GPUs below the leaves.

    Parameters
    ----------
    leaves, spines : int
        Switches of each level.
    gpus_per_leaf : int
        Compute nodes below each leaf.
    oversubscription : int
        r of r:1: a leaf's downlinks over its uplinks. An uplink is rounded down to whole bytes/s.
    nic_bandwidth : int
        GPU to leaf, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    The shape is a folded Clos network (C. Clos, "A study of non-blocking switching networks", 1953); 50 GB/s
    is a 400 Gbit/s NIC per GPU.

    Examples
    --------
    >>> leaf_spine(4, 2)
    <Topology leaf_spine(4, 2): 32 compute, 6 switches, 80 links>
    """
    check_counts("leaf_spine", leaves=leaves, spines=spines, gpus_per_leaf=gpus_per_leaf)
    check_size("leaf_spine", leaves * (gpus_per_leaf + 1) + spines, 2 * leaves * (gpus_per_leaf + spines))
    uplink = _uplink("leaf_spine", gpus_per_leaf, nic_bandwidth, spines, oversubscription)
    spine, leaf = NodeFamily("spine{spine}"), NodeFamily("leaf{leaf}")
    gpu = NodeFamily("leaf{leaf}.gpu{gpu}", is_compute=True)
    downlink, up = LinkFamily(gpu, leaf, nic_bandwidth), LinkFamily(leaf, spine, uplink)
    families = Families(
        {"leaf": leaves, "spine": spines, "gpu": gpus_per_leaf},
        nodes=(spine, Each(("leaf",), (leaf, gpu))),
        links=(Each(("leaf",), (downlink, up)),),
    )
    return families.build(call_expression(leaf_spine, locals()))


def fat_tree(k: int, *, bandwidth: int = 50 * GB_PER_S) -> Topology:
    """Three-level fat tree of `k`-port switches with `k`**3 / 4 compute nodes; all links are equal.

    Parameters
    ----------
    k : int
        Ports of each switch, even, at least 2.
    bandwidth : int
        Of each link, bytes/s.

    Raises
    ------
    TopologyError
        If `k` is odd or out of range.

    Notes
    -----
    M. Al-Fares, A. Loukissas, A. Vahdat, "A scalable, commodity data center network architecture", 2008,
    section 3: k pods of k/2 edge and k/2 aggregation switches, and (k/2)**2 core switches. 50 GB/s is a 400
    Gbit/s port.
    """
    check_count("fat_tree", "k", k, least=2)
    if k % 2:
        raise TopologyError(f"fat_tree: k must be even, found {k}")
    half = k // 2
    check_size("fat_tree", k * half * half + k * k + half * half, 6 * k * half * half)
    core, above = NodeFamily("core{core,port}"), NodeFamily("pod{pod}.agg{core}")
    edge = NodeFamily("pod{pod}.edge{edge}")
    gpu = NodeFamily("pod{pod}.edge{edge}.gpu{gpu}", is_compute=True)
    families = Families(
        {"pod": k, **dict.fromkeys(("core", "port", "edge", "gpu"), half)},
        nodes=(core, Each(("pod",), (above, Each(("edge",), (edge, gpu))))),
        links=(
            Each(
                ("pod",),
                (
                    LinkFamily(above, core, bandwidth),
                    Each(("edge",), (LinkFamily(edge, above, bandwidth), LinkFamily(gpu, edge, bandwidth))),
                ),
            ),
        ),
    )
    return families.build(call_expression(fat_tree, locals()))


def rail_optimized(
    boxes: int,
    gpus_per_box: int = 8,
    *,
    spines: int = 0,
    oversubscription: int = 1,
    nvlink_bandwidth: int = 450 * GB_PER_S,
    nic_bandwidth: int = 50 * GB_PER_S,
) -> Topology:
    """NVSwitch boxes whose GPUs i all hang off rail switch i.

    Parameters
    ----------
    boxes : int
        One box has only its NVSwitches, without rails.
    gpus_per_box : int
        GPUs on the NVSwitch, and number of rails.
    spines : int
        Switches above, joined to every rail; 0 is the "rail-only" network.
    oversubscription : int
        r of r:1 at the rail switches. An uplink is rounded down to whole bytes/s.
    nvlink_bandwidth, nic_bandwidth : int
        GPU to NVSwitch and GPU to rail switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range, or `oversubscription` is given without spines.

    Notes
    -----
    Rail-only: W. Wang et al., "Rail-only: a low-cost high-performance network for training LLMs with trillion
    parameters", HOTI 2024. Bandwidths as in `dgx_h100`.
    """
    check_counts("rail_optimized", boxes=boxes, gpus_per_box=gpus_per_box)
    check_count("rail_optimized", "spines", spines, least=0)
    if oversubscription != 1 and not spines:
        raise TopologyError("rail_optimized: oversubscription needs spines; give spines=1 or more")
    check_size(
        "rail_optimized",
        boxes * (gpus_per_box + 1) + gpus_per_box + spines,
        4 * boxes * gpus_per_box + 2 * gpus_per_box * spines,
    )
    gpu = NodeFamily("box{box}.gpu{gpu}", is_compute=True)
    nvswitch, rail = NodeFamily("box{box}.nvswitch"), NodeFamily("rail{gpu}")
    nodes: list[Part] = [Each(("box",), (gpu, nvswitch))]
    links: list[Part] = [LinkFamily(gpu, nvswitch, nvlink_bandwidth)]
    if boxes > 1:
        nodes.append(rail)
        links.append(LinkFamily(gpu, rail, nic_bandwidth))
    if boxes > 1 and spines:
        uplink = _uplink("rail_optimized", boxes, nic_bandwidth, spines, oversubscription)
        spine = NodeFamily("spine{spine}")
        nodes.append(spine)
        links.append(Each(("spine",), (LinkFamily(rail, spine, uplink),)))
    sizes = {"box": boxes, "gpu": gpus_per_box, "spine": spines}
    return Families(sizes, tuple(nodes), tuple(links)).build(call_expression(rail_optimized, locals()))


def pods(
    n_pods: int,
    boxes_per_pod: int,
    *,
    gpus_per_box: int = 8,
    oversubscription: int = 1,
    nvlink_bandwidth: int = 450 * GB_PER_S,
    nic_bandwidth: int = 50 * GB_PER_S,
) -> Topology:
    """Three levels: NVSwitch boxes, a leaf switch per pod, one spine.

    Parameters
    ----------
    n_pods : int
        One pod is without a spine.
    boxes_per_pod : int
        Boxes below each leaf; they are numbered through all pods.
    gpus_per_box : int
        GPUs on each NVSwitch.
    oversubscription : int
        r of r:1: a pod's NIC bandwidth over its uplink to the spine. Rounded down to whole bytes/s.
    nvlink_bandwidth, nic_bandwidth : int
        GPU to NVSwitch and GPU to leaf, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    Bandwidths as in `dgx_h100`. Parallel leaf-spine cables, and spines that share them, are one link and one
    switch here: with even load-balancing over them every cut is the same.
    """
    check_counts("pods", n_pods=n_pods, boxes_per_pod=boxes_per_pod, gpus_per_box=gpus_per_box)
    boxes = n_pods * boxes_per_pod
    check_size("pods", boxes * (gpus_per_box + 1) + n_pods + 1, 4 * boxes * gpus_per_box + 2 * n_pods)
    uplink = _uplink("pods", boxes_per_pod * gpus_per_box, nic_bandwidth, 1, oversubscription)
    gpu, nvswitch = NodeFamily("box{pod,box}.gpu{gpu}", is_compute=True), NodeFamily("box{pod,box}.nvswitch")
    leaf, spine = NodeFamily("leaf{pod}"), NodeFamily("spine0")
    nodes: tuple[Part, ...] = (Each(("pod", "box"), (gpu, nvswitch)), leaf)
    links: tuple[Part, ...] = (
        LinkFamily(gpu, nvswitch, nvlink_bandwidth),
        LinkFamily(gpu, leaf, nic_bandwidth),
    )
    if n_pods > 1:
        nodes, links = (*nodes, spine), (*links, LinkFamily(leaf, spine, uplink))
    sizes = {"pod": n_pods, "box": boxes_per_pod, "gpu": gpus_per_box}
    return Families(sizes, nodes, links).build(call_expression(pods, locals()))
