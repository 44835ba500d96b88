"""Compare a log's tables with the limits of their fabric, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from treadle.context import TimeLimitError
from treadle.diagnosis.catalogue import find_causes
from treadle.diagnosis.cause import Case
from treadle.diagnosis.device_fabric import LogFabric, model_of
from treadle.diagnosis.diagnosed import (
    IN_NETWORK,
    OPTIMUM,
    RING,
    CheckedTable,
    Diagnosis,
    ReferenceBandwidth,
)
from treadle.diagnosis.expected import Conditions, conditions
from treadle.diagnosis.limit_position import LimitPosition, limit_position_of, pcie_limit
from treadle.diagnosis.log import Log, ResultTable
from treadle.diagnosis.log_values import kind_of, ranks_of, shows_fast_links, used_nics
from treadle.diagnosis.reference_bandwidths import (
    Limit,
    has_fast_links,
    in_network_limit,
    least_nics,
    optimum,
    ring_limit,
    with_nics,
    with_sums,
    without_sums,
)
from treadle.diagnosis.verdict import Outcome, Verdict, curve_of, verdict_of
from treadle.errors import InfeasibleError
from treadle.machines.system import System, system_of
from treadle.schedules.collective import CollectiveKind
from treadle.spelling import counted
from treadle.topologies.named_boxes import Boxes, find_boxes, joined_by_nvswitches, rank_boxes
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

HEALTHY_SHARES = {LimitPosition.NICS: 0.85, LimitPosition.PCIE: 0.85, LimitPosition.NETWORK: 0.85}
"""Shares of the ring that a healthy system reaches, by where that binds: 86% and more in public cases."""
HEALTHY_IN_BOX = 0.75
"""Within a box: NCCL's protocols leave 370 of 450 GB/s of NVLink (82%), and some 230 of 300 (77%)."""
HEALTHY_IN_NETWORK = 0.6
"""Fraction of the in-network optimum: NVLink SHARP reaches 480 of 700 GB/s (69%) on eight H100."""
HEALTHY_ALLTOALL = 0.6
"""Fraction of an all-to-all's optimum."""


class Examination:
    """Checks a log's tables one by one, then searches the catalogue of causes."""

    def __init__(self, log: Log, fabric: LogFabric | Unsupported, kind: CollectiveKind | None) -> None:
        self._log, self._fabric, self._kind = log, fabric, kind
        self._topology = None if isinstance(fabric, Unsupported) else fabric.topology
        self._fabric_nics = self._used_nics = 0
        self._hosts_per_box = 1
        self._cases: list[Case] = []
        self._limits: dict[tuple[object, ...], Limit] = {}
        self._late: dict[str, None] = {}
        self._notes: dict[str, None] = {}

    def diagnosis(self) -> Diagnosis:
        """Check all tables and find the causes."""
        found = [(table, self._judged(table)) for table in self._log.tables]
        if not self._cases:
            only = self._log.tables[0] if self._log.tables else None
            self._cases.append(self._case(only, self._hosts(only)))
        case = next((one for one in self._cases if one.is_low), self._cases[0])
        known = None if isinstance(self._fabric, Unsupported) else self._fabric
        return Diagnosis(
            log=self._log,
            topology=self._topology,
            imported=known.imported if known else None,
            assumed=(*(known.assumed if known else ()), *self._notes),
            checked_tables=tuple(one for _, one in found if isinstance(one, CheckedTable)),
            unchecked_tables=tuple((table, str(one)) for table, one in found if isinstance(one, Unsupported)),
            causes=find_causes(case),
            used_nics=self._used_nics,
            fabric_nics=self._fabric_nics,
            late=tuple(self._late),
            missing="" if known or not self._log.tables else str(self._fabric),
        )

    def _hosts(self, table: ResultTable | None) -> list[str]:
        """Return the host of each rank; empty if the log does not list all of them."""
        ranks = self._log.ranks if table is None else table.ranks
        hosts = {rank: one.host for rank, one in ranks.items()} or self._log.rank_hosts
        whole = sorted(hosts) == list(range(len(hosts)))
        return [hosts[rank] for rank in range(len(hosts))] if whole else []

    def _judged(self, table: ResultTable) -> CheckedTable | Unsupported:
        kind, topology = self._kind or kind_of(table), self._topology
        if isinstance(kind, Unsupported):
            return kind
        if topology is None:
            return Unsupported("the fabric is not known")
        hosts = self._hosts(table)
        n_ranks = len(hosts) or self._log.n_ranks or ranks_of(table, kind)
        n = len(topology.compute_nodes)
        if n_ranks and n_ranks != n:
            return Unsupported(f"it has {n_ranks} ranks, the fabric {n}; say the right one by --topology")
        if n < 2:
            return Unsupported("one rank exchanges nothing")
        try:
            return self._judge(table, kind, topology, hosts)
        except InfeasibleError as error:
            return Unsupported(str(error))

    def _judge(
        self, table: ResultTable, kind: CollectiveKind, topology: Topology, hosts: Sequence[str]
    ) -> CheckedTable | Unsupported:
        of_rank = joined_by_nvswitches(topology, rank_boxes(topology, hosts))
        boxes = find_boxes(topology, of_rank)
        self._note_sizes(hosts, of_rank, topology)
        self._fabric_nics = least_nics(topology, boxes)
        hosts_of: dict[int, set[str]] = {}
        for box, host in zip(of_rank, hosts, strict=False):
            hosts_of.setdefault(box, set()).add(host)
        self._hosts_per_box = min(map(len, hosts_of.values()), default=1)
        self._used_nics = used_nics(self._log) * self._hosts_per_box or self._fabric_nics
        used = topology
        if boxes.count > 1 and self._used_nics < self._fabric_nics:
            used = with_nics(topology, boxes, self._used_nics)
        peak = table.peak
        try:
            references = self._references(used, of_rank, table, kind, is_whole=False)
        except InfeasibleError:  # with fewer NICs not all GPUs are reached: NCCL must use more
            used = topology
            references = self._references(used, of_rank, table, kind, is_whole=False)
        if not references:
            return Unsupported("the time limit was reached; allow more (--time-limit)")
        if used is not topology:
            references += self._references(topology, of_rank, table, kind, is_whole=True)
        above, first = _above(references), references[0]
        boxes = find_boxes(used, of_rank)
        system, given = self._system(topology)
        assumes = isinstance(self._fabric, LogFabric) and self._fabric.assumes_nics
        verdict = verdict_of(table, kind, system, given, assumes_nics=assumes)
        has_no_model = isinstance(system, Unsupported) or kind is CollectiveKind.ALLTOALL
        if has_no_model and verdict.outcome is Outcome.CANNOT_SAY and verdict.expected is None:
            what = "a ring at nominal link rates" if first.name == RING else "the optimum"
            outcome = Outcome.SLOW if _is_low(references) else Outcome.NORMAL
            verdict = Verdict(outcome, f"{what}; {verdict.reason}", first.share)
        is_slow = verdict.outcome is Outcome.SLOW
        pcie = pcie_limit(used, boxes, first.limit) if first.place is LimitPosition.PCIE else None
        is_low = is_slow or _is_low(references)
        case = self._case(
            table, hosts, topology=used, boxes=boxes, share=first.share, is_low=is_low, pcie=pcie
        )
        self._cases.append(case)
        n = len(topology.compute_nodes)
        curve = curve_of(table, kind, system, given)
        with_nvls = self._with_nvls(system, kind, topology, of_rank, references)
        return CheckedTable(table, kind, n, peak, used, references, above, is_slow, verdict, curve, with_nvls)

    def _system(self, topology: Topology) -> tuple[System | Unsupported, Conditions]:
        """Return the machine, of the listed GPUs' generation, and what the log says of the library."""
        system, model, full_board = system_of(topology), model_of(self._log), 0
        is_usual = isinstance(self._fabric, LogFabric) and self._fabric.is_usual
        if is_usual and model is not None and isinstance(system, System):
            system = replace(system, generation=model.generation, has_fast_links=model.has_fast_links)
            full_board = model.full_board
        has_p2p = model is None or model.has_p2p
        given = conditions(self._log, len(topology.compute_nodes), has_p2p=has_p2p)
        return system, replace(given, full_board=full_board)

    def _with_nvls(
        self,
        system: System | Unsupported,
        kind: CollectiveKind,
        topology: Topology,
        of_rank: Sequence[int],
        found: Sequence[ReferenceBandwidth],
    ) -> Limit | None:
        """Return the optimum with NVLink SHARP, NCCL's default, if the fabric leaves it out."""
        if kind is not CollectiveKind.ALLREDUCE or any(one.name == IN_NETWORK for one in found):
            return None
        if isinstance(system, Unsupported) or not (system.generation.has_nvls and system.has_switch):
            return None
        capable = with_sums(topology, find_boxes(topology, of_rank), nvls=True, sharp=False)
        return self._in_network(capable, kind, "nvls", *of_rank)

    def _note_sizes(self, hosts: Sequence[str], of_rank: Sequence[int], topology: Topology) -> None:
        """Say where the hosts of the log are other groups of ranks than the boxes of the fabric."""
        in_log = sorted(Counter(hosts).values())
        in_fabric = sorted(Counter(rank_boxes(topology)).values())
        if in_log and in_log != in_fabric:
            judged = _groups("box", sorted(Counter(of_rank).values()))
            self._notes[
                f"the log has {_groups('host', in_log)}, the fabric {_groups('box', in_fabric)}; "
                f"taken as {judged}"
            ] = None

    def _references(
        self,
        topology: Topology,
        of_rank: Sequence[int],
        table: ResultTable,
        kind: CollectiveKind,
        *,
        is_whole: bool,
    ) -> tuple[ReferenceBandwidth, ...]:
        """Return Ring, optimum, and the in-network optimum where that applies."""
        measured = Fraction(table.peak.busbw) * 10**9
        boxes = find_boxes(topology, of_rank)
        plain = without_sums(topology)
        root = max(table.root or 0, 0) if kind.is_rooted else None
        if root is not None and root >= len(topology.compute_nodes):
            root = 0
        key = (kind, root, tuple(of_rank), is_whole)
        ring = None
        if kind is not CollectiveKind.ALLTOALL:
            ring = self._limit(RING, key, lambda: ring_limit(plain, boxes))
        best = self._limit(OPTIMUM, key, lambda: optimum(plain, kind, root=root))
        if ring and best and ring.busbw > best.busbw:
            ring = best  # cuts ignore uplinks that carry both directions
        capable = None
        if kind is CollectiveKind.ALLREDUCE and (last := best or ring):
            capable = self._capable(topology, boxes, is_above=measured > last.busbw)
        limits = {RING: ring, OPTIMUM: best, IN_NETWORK: self._in_network(capable, *key)}
        return tuple(
            ReferenceBandwidth(
                name,
                limit,
                float(measured / limit.busbw),
                limit_position_of(topology, boxes, limit),
                is_whole,
            )
            for name, limit in limits.items()
            if limit is not None
        )

    def _in_network(self, capable: Topology | None, kind: CollectiveKind, *key: object) -> Limit | None:
        """Return the limit of a fabric with in-network sums, if there is one."""
        if capable is None:
            return None
        return self._limit(IN_NETWORK, (kind, *key), lambda: in_network_limit(capable, kind))

    def _limit(self, name: str, key: tuple[object, ...], find: Callable[[], Limit]) -> Limit | None:
        """Return a limit, computed once for all tables; None if time runs out."""
        if (name, *key) not in self._limits:
            try:
                self._limits[name, *key] = find()
            except TimeLimitError:
                self._late[name] = None
        return self._limits.get((name, *key))

    def _capable(self, topology: Topology, boxes: Boxes, *, is_above: bool) -> Topology | None:
        """Return the fabric with in-network reduction, if the log shows it or a value requires it."""
        if topology.multicast.any() or topology.aggregation.any():
            return topology
        log = self._log
        nvls = "nvls" in log.remarks or any(one.nvls > 0 for one in log.channels)
        sharp = "collnet" in log.remarks or log.transport("COLLNET") is not None
        if not (nvls or sharp or is_above):
            return None
        return with_sums(topology, boxes, nvls=nvls or not sharp, sharp=sharp)

    def _case(
        self,
        table: ResultTable | None,
        hosts: Sequence[str],
        *,
        topology: Topology | None = None,
        boxes: Boxes | None = None,
        **facts: object,
    ) -> Case:
        log = self._log
        n_hosts = len(set(hosts)) or log.n_nodes or len(log.hosts)
        n_ranks = len(hosts) or log.n_ranks or 0
        if boxes is not None and hosts and boxes.count < n_hosts:
            n_hosts = boxes.count  # NVSwitches join hosts: no data passes a network between these
        if boxes is not None and not hosts:
            n_hosts, n_ranks = max(n_hosts, boxes.count), len(topology.compute_nodes) if topology else n_ranks
        given = topology is not None and not (isinstance(self._fabric, Unsupported) or self._fabric.imported)
        return Case(
            log=log,
            table=table,
            n_hosts=n_hosts,
            gpus_per_host=n_ranks // n_hosts if n_hosts else 0,
            fabric_nics=self._fabric_nics,
            used_nics=used_nics(log) * self._hosts_per_box,
            has_fast_links=shows_fast_links(log)
            or (topology is not None and boxes is not None and has_fast_links(topology, boxes)),
            is_one_switch=given and boxes is not None and int((boxes.of_node < 0).sum()) == 1,
            **facts,  # type: ignore[arg-type]
        )


def _groups(noun: str, sizes: Sequence[int]) -> str:
    """Return the number of groups and of their ranks in words."""
    ranks = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
    return f"{counted(len(sizes), noun)} of {ranks} rank{'s' if sizes[-1] > 1 else ''}"


def _above(references: Sequence[ReferenceBandwidth]) -> str:
    """Explain a value above the optimum."""
    shares = {one.name: one.share for one in references if not one.is_whole}
    if shares.get(OPTIMUM, 0) <= 1:
        return ""
    if shares.get(IN_NETWORK, 2) > 1:
        which = "in-network optimum" if IN_NETWORK in shares else "optimum"
        return f"above the {which}: the stated speeds of links are too low"
    return "faster than possible without in-network reduction: NVLS or SHARP is in use: compare with that"


def _is_low(references: Sequence[ReferenceBandwidth]) -> bool:
    """Whether the value is below the healthy range of every reference for the NICs in use."""
    healthy = {
        RING: HEALTHY_SHARES.get(references[0].place, HEALTHY_IN_BOX),
        OPTIMUM: HEALTHY_ALLTOALL if references[0].name == OPTIMUM else 1.0,
        IN_NETWORK: HEALTHY_IN_NETWORK,
    }
    return not any(one.share >= healthy[one.name] for one in references if not one.is_whole)
