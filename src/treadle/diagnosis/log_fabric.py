"""The fabric that a log itself shows: NCCL's system trees of boxes, and how many boxes there are.

A box whose own tree is in the log and has other speeds or fewer links than that of the first is taken as its
tree shows it: a measurement of a damaged fabric is compared with the damaged fabric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.diagnosis.device_fabric import LogFabric, fabric_of_devices
from treadle.diagnosis.log import Log, SystemTree
from treadle.errors import TreadleError
from treadle.topologies.readers.boxes.box import Box
from treadle.topologies.readers.boxes.nccl_system import read_system
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.imported import Imported, ImportOptions, LinkSpeeds, SourceFile
from treadle.topologies.topology import TopologyBuilder
from treadle.unsupported import Unsupported

FORMAT = "nccl-log"
"""Name of the reader of system trees."""
_NETWORK = "one-switch"
"""Assumed network if none is described: no network between the same NICs is faster."""


def fabric_of_log(log: Log, options: ImportOptions) -> LogFabric | Unsupported:
    """Return the fabric of a log's system tree, or what is missing and the option that gives it.

    Parameters
    ----------
    log : Log
    options : ImportOptions
        What its user adds.
    """
    tree = _tree(log)
    if isinstance(tree, Unsupported):
        usual = fabric_of_devices(log, options)
        return tree if isinstance(usual, Unsupported) else usual
    try:
        box = _box(log, tree, options)
    except TreadleError as error:
        return _refused(str(error).removeprefix(f"{log.source}:"))
    if not box.links and log.has_staged_transfers:
        box = replace(box, has_p2p=False)
    count = options.boxes or _count(log, len(box.gpus))
    if isinstance(count, Unsupported):
        return count
    completed = _completed(log, options, count)
    imported = _joined(log, box, completed)
    if isinstance(imported, Unsupported):
        return imported
    if count == 1:
        return LogFabric(imported.topology, imported)
    own, unlike = _others(log, tree, box, completed)
    assumed = [f"{count} boxes like that of {tree.host}"]
    if own:
        imported = _damaged(imported, own)
        assumed[0] += (
            f", but {_several(list(own))} as {'its own tree shows' if len(own) == 1 else 'theirs show'}"
        )
    if unlike:
        assumed[0] += f", but not of {_several(unlike)}"
    if options.network is None:
        assumed.append("one switch between them without a bottleneck (--network says otherwise)")
    return LogFabric(imported.topology, imported, tuple(assumed))


def _box(log: Log, tree: SystemTree, options: ImportOptions) -> Box:
    lines = [(line.number, text) for line, text in tree.lines]
    return read_system(lines, links=options.links or LinkSpeeds.NOMINAL, source=log.source)


def _several(hosts: Sequence[str]) -> str:
    return hosts[0] + (f" and {len(hosts) - 1} more" if len(hosts) > 1 else "")


def _others(
    log: Log, tree: SystemTree, box: Box, options: ImportOptions
) -> tuple[dict[str, tuple[int, Imported]], list[str]]:
    """Return hosts whose trees show another box than the first.

    Returns
    -------
    dict of host to (place of its box, fabric of as many boxes like that)
    list of str
        Hosts whose box differs and cannot replace the first.
    """
    own: dict[str, tuple[int, Imported]] = {}
    unlike: list[str] = []
    listed = {rank: one.host for rank, one in log.ranks.items()} or log.rank_hosts
    hosts = dict.fromkeys(listed[rank] for rank in sorted(listed))
    hosts |= dict.fromkeys([tree.host, *(other.host for other in log.trees)])
    places = {host: place for place, host in enumerate(hosts)}
    known: dict[tuple[object, ...], Imported | Unsupported] = {}
    for other in log.trees:
        if not other.is_whole or other.host == tree.host:
            continue
        try:
            found = _box(log, other, options)
        except TreadleError:
            unlike.append(other.host)
            continue
        measures = _measures(found)
        if measures == _measures(box):
            continue
        if measures not in known:
            known[measures] = _joined(log, found, options)
        imported, place = known[measures], places.get(other.host, options.boxes or 0)
        has_other_rails = options.network != _NETWORK and len(found.nics) != len(box.nics)
        is_alike = len(found.gpus) == len(box.gpus) and not has_other_rails
        if isinstance(imported, Unsupported) or not is_alike or place >= (options.boxes or 0):
            unlike.append(other.host)
        else:
            own[other.host] = (place, imported)
    return own, unlike


def _damaged(imported: Imported, own: Mapping[str, tuple[int, Imported]]) -> Imported:
    """Return a fabric of equal boxes with some of them taken from fabrics of others."""
    base = imported.topology
    builder = TopologyBuilder(base.name)
    sources = {f"box{place}": other.topology for place, other in own.values()}
    fabrics = {id(one): one for one in (base, *sources.values())}.values()
    for node in base.compute_nodes.tolist():  # all fabrics have the same ranks
        builder.compute(base.node_names[node])
    for fabric in fabrics:
        for node in fabric.switches.tolist():
            name = fabric.node_names[node]
            if sources.get(name.partition(".")[0], base) is fabric:
                builder.switch(name)
    for fabric in fabrics:
        ends = zip(fabric.tails.tolist(), fabric.heads.tolist(), fabric.bandwidths.tolist(), strict=True)
        for tail, head, bandwidth in ends:
            names = fabric.node_names[tail], fabric.node_names[head]
            homes = [sources[box] for box in (name.partition(".")[0] for name in names) if box in sources]
            if (homes[0] if homes else base) is fabric:  # no link joins two boxes directly
                builder.link(*names, bandwidth)
    several = [imported, *(other for _, other in own.values())]
    return replace(
        imported,
        topology=builder.build(),
        defaulted=tuple(dict.fromkeys(finding for one in several for finding in one.defaulted)),
        warnings=tuple(dict.fromkeys(finding for one in several for finding in one.warnings)),
    )


def _measures(box: Box) -> tuple[object, ...]:
    """Return a key that is equal for equal boxes, whatever their devices are called."""
    links = sorted((link.gpu, link.other is None, link.other or 0, link.bandwidth) for link in box.links)
    gpus = tuple(one.slot.bandwidth or 0 for one in box.gpus)
    nics = tuple((nic.slot.bandwidth or 0, nic.bandwidth or 0) for nic in box.nics)
    return tuple(links), gpus, nics


def _tree(log: Log) -> SystemTree | Unsupported:
    """Return the tree of the first rank's host, if it is whole."""
    first = log.ranks[0].host if 0 in log.ranks else ""
    whole = [tree for tree in log.trees if tree.is_whole]
    if whole:
        return next((tree for tree in whole if tree.host == first), whole[0])
    if log.trees:
        return _refused("the system tree in the log is cut off")
    return _refused("the log has no system tree (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH prints it)")


def _refused(reason: str) -> Unsupported:
    return Unsupported(f"{reason.strip()}; give --topology, a catalogue name or a file")


def _count(log: Log, gpus: int) -> int | Unsupported:
    """Return the number of boxes."""
    n_ranks = len(log.ranks) or log.n_ranks
    hosts = len({rank.host for rank in log.ranks.values()})
    if not hosts and len(log.rank_hosts) == n_ranks:
        hosts = len(set(log.rank_hosts.values()))
    if n_ranks == gpus:
        return 1  # one box, or boxes that NVLink joins into one
    count = hosts or log.n_nodes or (n_ranks // gpus if n_ranks and n_ranks % gpus == 0 else 0)
    if not count:
        return Unsupported(
            "the log does not say how many boxes took part; give --boxes and --network, or --topology"
        )
    if n_ranks and n_ranks != count * gpus:
        return _refused(
            f"the system tree has {gpus} GPUs, which is no box of {n_ranks} ranks on {count} hosts"
        )
    return count


def _completed(log: Log, options: ImportOptions, count: int) -> ImportOptions:
    if count == 1:
        return replace(options, boxes=None, network=None)
    nics = options.nics
    setting = log.setting("NCCL_IB_HCA")
    if nics is None and setting is not None and not setting.value.startswith("^"):
        nics = "all"  # its user chose them: NCCL uses all that it then shows
    return replace(options, boxes=count, network=options.network or _NETWORK, nics=nics)


def _joined(log: Log, box: Box, options: ImportOptions) -> Imported | Unsupported:
    source = SourceFile("", log.source)
    reason = ""
    for nics in (options.nics, "all"):
        try:
            return fabric_of(source, box, replace(options, nics=nics), FORMAT)
        except TreadleError as error:
            reason = reason or str(error).removeprefix(f"{log.source}:")
    return _refused(f"the log does not show the whole fabric: {reason.strip()}")
