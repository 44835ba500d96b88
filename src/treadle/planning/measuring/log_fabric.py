"""The fabric that a log itself shows: NCCL's system tree of one box, and how many such boxes there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.diagnosis.log import Log, SystemTree
from treadle.errors import TreadleError
from treadle.refusal import Refusal
from treadle.topologies.readers.boxes.box import Box
from treadle.topologies.readers.boxes.nccl_system import read_system
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.imported import Imported, ImportOptions, LinkSpeeds, SourceText
from treadle.topologies.topology import Topology

FORMAT = "nccl-log"
"""What the reader of system trees is called."""
_NETWORK = "one-switch"
"""Assumed of a network that nobody describes: none between the same NICs is faster."""


@dataclass(frozen=True)
class LogFabric:
    """A fabric, and where it comes from.

    Parameters
    ----------
    topology : Topology
    imported : Imported, optional
        What was recognised in the log; None for a fabric that was given.
    assumed : tuple of str
        What the log does not say and was taken for granted.
    """

    topology: Topology
    imported: Imported | None = None
    assumed: tuple[str, ...] = ()


def fabric_of_log(log: Log, options: ImportOptions) -> LogFabric | Refusal:
    """The fabric of a log's system tree, or what is missing and which option says it.

    Parameters
    ----------
    log : Log
    options : ImportOptions
        What its user adds.
    """
    tree = _tree(log)
    if isinstance(tree, Refusal):
        return tree
    try:
        lines = [(line.number, text) for line, text in tree.lines]
        box = read_system(lines, links=options.links or LinkSpeeds.NOMINAL, source=log.source)
    except TreadleError as error:
        return _refused(str(error).removeprefix(f"{log.source}:"))
    count = options.boxes or _count(log, len(box.gpus))
    if isinstance(count, Refusal):
        return count
    assumed = []
    if count > 1:
        assumed.append(f"{count} boxes like that of {tree.host}{_others(log, tree, box)}")
        if options.network is None:
            assumed.append("one switch between them without a bottleneck (--network says otherwise)")
    return _joined(log, box, _completed(log, options, count), tuple(assumed))


def _others(log: Log, tree: SystemTree, box: Box) -> str:
    """Which hosts show another box, in words."""
    different = []
    for other in log.trees:
        if not other.is_whole or other.host == tree.host:
            continue
        try:
            found = read_system([(line.number, text) for line, text in other.lines])
        except TreadleError:
            different.append(other.host)
            continue
        if _measures(found) != _measures(box):
            different.append(other.host)
    if not different:
        return ""
    more = f" and {len(different) - 1} more" if len(different) > 1 else ""
    return f", but not of {different[0]}{more}"


def _measures(box: Box) -> tuple[object, ...]:
    """What boxes of one kind have in common, whatever their devices are called."""
    links = sorted((link.gpu, link.other is None, link.other or 0, link.bandwidth) for link in box.links)
    slots = [one.slot for one in box.gpus] + [one.slot for one in box.nics]
    pcie = sorted(slot.bandwidth or 0 for slot in slots)
    return len(box.gpus), links, pcie, sorted(nic.bandwidth or 0 for nic in box.nics)


def _tree(log: Log) -> SystemTree | Refusal:
    """The tree of the first rank's host, if it is whole."""
    first = log.ranks[0].host if 0 in log.ranks else ""
    whole = [tree for tree in log.trees if tree.is_whole]
    if whole:
        return next((tree for tree in whole if tree.host == first), whole[0])
    if log.trees:
        return _refused("the system tree in the log is cut off")
    return _refused("the log has no system tree (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH prints it)")


def _refused(reason: str) -> Refusal:
    return Refusal(f"{reason.strip()}; give --topology, a catalogue name or a file")


def _count(log: Log, gpus: int) -> int | Refusal:
    """How many boxes there are."""
    n_ranks = len(log.ranks) or log.n_ranks
    hosts = len({rank.host for rank in log.ranks.values()})
    if not hosts and len(log.rank_hosts) == n_ranks:
        hosts = len(set(log.rank_hosts.values()))
    if n_ranks == gpus:
        return 1  # one box, or boxes that NVLink joins into one
    count = hosts or log.n_nodes or (n_ranks // gpus if n_ranks and n_ranks % gpus == 0 else 0)
    if not count:
        return Refusal(
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


def _joined(log: Log, box: Box, options: ImportOptions, assumed: tuple[str, ...]) -> LogFabric | Refusal:
    source = SourceText("", log.source)
    reason = ""
    for nics in (options.nics, "all"):
        try:
            imported = fabric_of(source, box, replace(options, nics=nics), FORMAT)
        except TreadleError as error:
            reason = reason or str(error).removeprefix(f"{log.source}:")
            continue
        return LogFabric(imported.topology, imported, assumed)
    return _refused(f"the log does not show the whole fabric: {reason.strip()}")
