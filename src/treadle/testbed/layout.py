"""Parts of the emulated network as strings; pure, so that a dry run shows exactly what would be done."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction

from treadle.errors import ScheduleError, TopologyError
from treadle.program.program import OperationKind, Program
from treadle.topologies.topology import Topology

MAX_NODES = 32
"""Each node is a daemon and a process of the program; more say nothing on one host."""

MAX_TOTAL_BYTES_PER_S = 625 * 10**6
"""Directed links together: 5 Gbit/s. Beyond 4 to 6 a small host, not the shaping, sets the pace."""

MTU = 9000
ADDRESS_BLOCK = "10.87.0"
NODE_INTERFACE = "node"
_BURST_S = Fraction(1, 2000)
_MIN_BURST = 32_000
_QUEUE_BYTES = 8 * 2**20
NAMESPACES = "/run/netns"
"""Folder in which iproute2 keeps the files of namespaces."""

DELAY_LINE = "treadle-delay-line"
_WINDOW_PACKETS = 1000
_WINDOW_BYTES = 16_000_000
_TAP_FRAMES = 10_000


@dataclass(frozen=True)
class VethPair:
    """A veth pair, or delay line, between two nodes, with each direction's rate in bytes/s; 0: not shaped.

    The unshaped direction of a unidirectional link carries nothing: no route leads over it.
    """

    one: int
    other: int
    forward_bytes_per_s: int
    backward_bytes_per_s: int


@dataclass(frozen=True)
class EmulatedLayout:
    """An emulated network.

    Parameters
    ----------
    namespaces : tuple of str
        Name of each node's network namespace.
    next_hop : tuple of tuple of int
        next_hop[u][v]: the neighbour to which u forwards packets for v; u itself for u = v.
    delay_ns : int, optional
        Of every link, which a delay line then is; None: veth pairs shaped by tbf.
    """

    namespaces: tuple[str, ...]
    cables: tuple[VethPair, ...]
    next_hop: tuple[tuple[int, ...], ...]
    delay_ns: int | None = None

    def address(self, node: int) -> str:
        """IPv4 address of a node."""
        return f"{ADDRESS_BLOCK}.{node + 1}"

    def host_name(self, node: int) -> str:
        """Host name of the node."""
        return f"node{node}"

    @property
    def diameter(self) -> int:
        """Links of the longest route."""
        nodes = range(len(self.namespaces))
        return max(len(routed(self, tail, head)) for tail in nodes for head in nodes)


def link_rates(topology: Topology, rate_bytes_per_s: int) -> dict[tuple[int, int], int]:
    """Emulated rate between each pair of linked nodes, bytes/s.

    The slowest link runs at the given rate, others in proportion. Parallel links are one with the sum of
    their rates; self-loops carry nothing and are left out.

    Raises
    ------
    TopologyError
        If the fabric has switches, too many nodes or caps on hosts, or exceeds what a host can emulate.
    """
    n = topology.n_nodes
    if topology.switches.size:
        name = topology.node_names[int(topology.switches[0])]
        raise TopologyError(f"{topology.name}: {name!r} is a switch; the testbed has direct links only")
    if not 2 <= n <= MAX_NODES:
        raise TopologyError(f"{topology.name}: {n} nodes; the testbed takes 2 to {MAX_NODES}")
    if topology.injection_bytes_per_s.any():
        raise TopologyError(f"{topology.name}: the testbed does not emulate injection caps")
    slowest = int(topology.bandwidths.min(initial=2**62))
    rates: dict[tuple[int, int], int] = {}
    columns = (topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist())
    for tail, head, bandwidth in zip(*columns, strict=True):
        if tail != head:
            rate = rate_bytes_per_s * bandwidth // slowest
            rates[tail, head] = rates.get((tail, head), 0) + rate
    total = sum(rates.values())
    if total > MAX_TOTAL_BYTES_PER_S:
        raise TopologyError(
            f"{topology.name}: its links together would carry {total * 8 / 1e9:.2f} Gbit/s, at most "
            f"{MAX_TOTAL_BYTES_PER_S * 8 / 1e9:.0f} can be emulated; use a lower --rate"
        )
    return rates


def make_layout(
    topology: Topology, rate_bytes_per_s: int, *, prefix: str, delay_ns: int | None = None
) -> EmulatedLayout:
    """Plan the emulation of a direct-connect fabric.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, strongly connected.
    rate_bytes_per_s : int
        Of the slowest link.
    prefix : str
        Begins the names of all namespaces.
    delay_ns : int, optional
        Of every link.

    Raises
    ------
    TopologyError
        If the fabric cannot be emulated.
    """
    rates = link_rates(topology, rate_bytes_per_s)
    cables = [
        VethPair(tail, head, rate, rates.get((head, tail), 0))
        for (tail, head), rate in sorted(rates.items())
        if tail < head or (head, tail) not in rates
    ]
    return EmulatedLayout(
        namespaces=tuple(f"{prefix}-{node}" for node in range(topology.n_nodes)),
        cables=tuple(cables),
        next_hop=_next_hops(topology, set(rates)),
        delay_ns=delay_ns,
    )


def _next_hops(topology: Topology, links: set[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Shortest paths; of several the one over the smallest neighbour."""
    n = topology.n_nodes
    into: list[list[int]] = [[] for _ in range(n)]
    for tail, head in sorted(links):
        into[head].append(tail)
    table = [[-1] * n for _ in range(n)]
    for target in range(n):
        table[target][target] = target
        queue = deque([target])
        while queue:
            node = queue.popleft()
            for tail in into[node]:
                if table[tail][target] < 0:
                    table[tail][target] = node
                    queue.append(tail)
        for node in range(n):
            if table[node][target] < 0:
                names = topology.node_names
                raise TopologyError(f"{topology.name}: no path from {names[node]!r} to {names[target]!r}")
    return tuple(map(tuple, table))


def check_paths(topology: Topology, program: Program, layout: EmulatedLayout) -> None:
    """Raise ScheduleError if a send goes along other links than packets between the two ranks would."""
    done: set[tuple[int, int, int]] = set()
    owners = program.operation_rank.tolist()
    for operation, kind in enumerate(program.operation_kind.tolist()):
        path = int(program.path[operation])
        ends = int(program.nodes[owners[operation]]), int(program.nodes[int(program.peer[operation])])
        if kind != OperationKind.SEND or (*ends, path) in done:
            continue
        done.add((*ends, path))
        links = program.links(path).tolist() if path >= 0 else []
        named = [int(topology.heads[link]) for link in links]
        if named != routed(layout, *ends):
            tail, head = (topology.node_names[node] for node in ends)
            raise ScheduleError(
                f"a message from {tail} to {head} takes {len(named)} links that the testbed's routes, which "
                f"are shortest paths, do not; use a schedule between neighbours (bfb, ring-steps, tsmcf, ...)"
            )


def routed(layout: EmulatedLayout, tail: int, head: int) -> list[int]:
    """Nodes that a packet comes to on its way."""
    nodes = []
    while tail != head:
        tail = layout.next_hop[tail][head]
        nodes.append(tail)
    return nodes


@dataclass(frozen=True)
class SystemCommand:
    """A process to run: its words, and what it reads; `DELAY_LINE` alone stays for as long as the network."""

    words: tuple[str, ...]
    lines: tuple[str, ...] = ()


def set_up_commands(layout: EmulatedLayout) -> list[SystemCommand]:
    """Everything that brings the network up, in order.

    Notes
    -----
    A node's address is on a bridge without ports, so that it belongs to no link. tbf's burst is half a
    millisecond of the rate: less runs below the rate, because the timer is late. The congestion control is
    reno: it does not pace, so that only tbf, or the delay line, shapes.
    """
    names = layout.namespaces
    commands = [SystemCommand(("ip", "-batch", "-"), tuple(f"netns add {name}" for name in names))]
    commands.append(_link_command(layout))
    settings = _SETTINGS if layout.delay_ns is None else (*_SETTINGS, *_DELAYED_SETTINGS)
    for node, name in enumerate(names):
        commands.append(SystemCommand(("ip", "netns", "exec", name, "sh"), settings))
        commands.append(SystemCommand(("ip", "-n", name, "-batch", "-"), tuple(_address_lines(layout, node))))
        if layout.delay_ns is None:
            queues = tuple(
                f"qdisc add dev l{number} root tbf rate {rate * 8}bit burst {burst_bytes(rate)} "
                f"limit {_QUEUE_BYTES}"
                for number, _, rate in _interfaces(layout, node)
                if rate
            )
            commands.append(SystemCommand(("tc", "-n", name, "-batch", "-"), queues))
    return commands


def _link_command(layout: EmulatedLayout) -> SystemCommand:
    """Commands that join the namespaces by links, which are down at first."""
    names = layout.namespaces
    if layout.delay_ns is None:
        lines = (
            f"link add l{number} mtu {MTU} netns {names[cable.one]} type veth "
            f"peer name l{number} mtu {MTU} netns {names[cable.other]}"
            for number, cable in enumerate(layout.cables)
        )
        return SystemCommand(("ip", "-batch", "-"), tuple(lines))
    lines = (
        f"l{number} {NAMESPACES}/{names[cable.one]} {cable.forward_bytes_per_s} {layout.delay_ns} "
        f"{NAMESPACES}/{names[cable.other]} {cable.backward_bytes_per_s} {layout.delay_ns}"
        for number, cable in enumerate(layout.cables)
    )
    return SystemCommand((DELAY_LINE,), tuple(lines))


_SETTINGS = (
    "set -e",
    "cd /proc/sys/net",
    # without IPv6 nothing but our traffic is on the links
    "if [ -e ipv6/conf/all/disable_ipv6 ]; then echo 1 > ipv6/conf/all/disable_ipv6; fi",
    "echo 1 > ipv4/ip_forward",
    "echo reno > ipv4/tcp_congestion_control",
    "for f in ipv4/conf/*/rp_filter; do echo 0 > $f; done",
)
_DELAYED_SETTINGS = (
    # a message waits for links, not for the word of its receiver: windows are wide open from the start
    "echo 0 > ipv4/tcp_slow_start_after_idle",
    f"echo 4096 {_WINDOW_BYTES} {2 * _WINDOW_BYTES} > ipv4/tcp_rmem",
    f"echo 4096 {_WINDOW_BYTES} {2 * _WINDOW_BYTES} > ipv4/tcp_wmem",
)


def _address_lines(layout: EmulatedLayout, node: int) -> list[str]:
    own = layout.address(node)
    links = _interfaces(layout, node)
    lines = [
        "link set lo up",
        f"link add {NODE_INTERFACE} type bridge",
        f"addr add {own}/24 dev {NODE_INTERFACE}",
        f"link set {NODE_INTERFACE} up",
    ]
    windows = ""
    if layout.delay_ns is not None:
        lines += [f"link set l{number} mtu {MTU} txqueuelen {_TAP_FRAMES}" for number, _, _ in links]
        windows = f" initcwnd {_WINDOW_PACKETS} initrwnd {_WINDOW_PACKETS}"
    lines += [f"link set l{number} up" for number, _, _ in links]
    by_neighbour = {neighbour: number for number, neighbour, rate in links if rate}
    for target, hop in enumerate(layout.next_hop[node]):
        if target != node:
            through = f"via {layout.address(hop)} dev l{by_neighbour[hop]} onlink src {own}{windows}"
            lines.append(f"route add {layout.address(target)}/32 {through}")
    return lines


def burst_bytes(rate_bytes_per_s: int) -> int:
    """Bytes that an idle link sends in a burst, before its rate holds."""
    return max(int(rate_bytes_per_s * _BURST_S), _MIN_BURST)


def _interfaces(layout: EmulatedLayout, node: int) -> list[tuple[int, int, int]]:
    """Number of the pair, neighbour and rate out of the node, of each of its cables."""
    found = []
    for number, cable in enumerate(layout.cables):
        if cable.one == node:
            found.append((number, cable.other, cable.forward_bytes_per_s))
        elif cable.other == node:
            found.append((number, cable.one, cable.backward_bytes_per_s))
    return found
