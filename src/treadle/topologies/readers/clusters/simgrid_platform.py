"""SimGrid's platform files (XML): one cluster, flat or as a fat tree, a torus or a dragonfly; or routes.

SimGrid's sources define such a cluster and its manual draws it; here it is built from these:
the extended generalised fat tree of E. Zahavi ("D-Mod-K routing providing non-blocking traffic for shift
permutations on real life fat trees", 2010), a torus where each host makes one link onwards in each dimension
(a dimension of two has two links, which our own torus has not), and a Cray-like dragonfly of groups,
chassis and blades. Links of clusters are full duplex (SPLITDUPLEX); a shared or a fat pipe is no link of a
graph.

Hosts and routers of zones are joined by routes. Where each route crosses one link, and a link is crossed by
the routes between two nodes only, routes are links of a graph; routers are switches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from lxml import etree

from treadle.errors import FormatError
from treadle.topologies.readers.boxes.xml_source import Attributes, line_of, parse_xml
from treadle.topologies.readers.checked_values import (
    MAX_IMPORTED_NODES,
    check_import_size,
    format_value,
    integer,
    integer_bandwidth,
    integer_latency,
    number,
    number_spans,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.topology import TopologyBuilder
from treadle.units import format_link_bandwidth

_BANDWIDTH = re.compile(r"([0-9.eE+-]*[0-9.])\s*([kMGTPE]?i?)(Bps|bps)?")
_TIME = re.compile(r"([0-9.eE+-]*[0-9.])\s*(ps|ns|us|ms|s|m|h|d|w)?")
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_SECONDS = {
    **{prefix + "s": Fraction(1, 1000**power) for power, prefix in enumerate(("", "m", "u", "n", "p"))},
    **{"m": Fraction(60), "h": Fraction(3600), "d": Fraction(86400), "w": Fraction(604800)},
}
_HARMLESS = {"zone", "AS", "platform", "prop", "config"}
_ROUTES = {"route": ("src", "dst"), "zoneRoute": ("gw_src", "gw_dst"), "ASroute": ("gw_src", "gw_dst")}
"""Attributes that name the ends."""
_MOST = 1024
"""Largest dimension of a shape."""


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the cluster of a platform; FormatError if there is none, more than one, or it is malformed."""
    del options  # such a file says everything
    root = parse_xml(source)
    if root.tag != "platform":
        raise Attributes(source).error(root, "is not SimGrid's <platform>")
    if next(root.iter("cluster"), None) is None and next(root.iter("host"), None) is not None:
        return _imported_routes(source, root)
    clusters = list(root.iter("cluster"))
    for element in root.iter():
        if element.tag not in _HARMLESS | {"cluster", "router", "cabinet", "storage", "backbone"}:
            where = " beside a <cluster>" if clusters else ""
            raise Attributes(source).error(element, f"is not read{where}")
    if len(clusters) != 1:
        raise source.error(f"has {len(clusters)} clusters; expected one <cluster>, or hosts and routes")
    cluster = _Cluster(source, clusters[0])
    shape = cluster.given("topology", "FLAT")
    if shape not in _SHAPES:
        raise cluster.wrong(f"topology={format_value(shape)}: expected one of {', '.join(_SHAPES)}")
    drawn = _SHAPES[shape](cluster)
    found = {
        "cluster": f"{shape}, {len(cluster.hosts)} hosts, {drawn}",
        "speeds": f"{format_link_bandwidth(cluster.bandwidth)}, {cluster.latency} ns per link",
        "rank order": "hosts in the order of radical",
    }
    return Imported(cluster.builder.build(), "simgrid", found, warnings=tuple(cluster.warnings))


class _Platform(Attributes):
    """Attributes with SimGrid's units."""

    def name(self, element: etree._Element) -> str:
        """Return the identity of an element."""
        name = self.choice(element, "id")
        if not name.isprintable():
            expected = "expected one line without control characters"
            raise self.error(element, f"id={format_value(name)}: {expected}")
        return name

    def speed(self, element: etree._Element, key: str) -> int:
        """Return a bandwidth in bytes/s; without a unit it is in bytes/s already."""
        text = self.choice(element, key)
        match = _BANDWIDTH.fullmatch(text.strip())
        if match is None or (match[2] and not match[3]) or match[2] == "i":
            raise self.error(element, f"{key}={format_value(text)}: expected a bandwidth such as 125MBps")
        base = 1024 if match[2].endswith("i") else 1000
        value = number(self.source, key, match[1]) * base ** _PREFIXES.index(match[2].removesuffix("i"))
        return integer_bandwidth(self.source, key, value / (8 if match[3] == "bps" else 1))

    def time(self, element: etree._Element, key: str, default: str | None = None) -> int:
        """Return a time in nanoseconds; without a unit it is in seconds."""
        text = self.choice(element, key, default)
        match = _TIME.fullmatch(text.strip())
        if match is None:
            raise self.error(element, f"{key}={format_value(text)}: expected a time such as 50us")
        seconds = number(self.source, key, match[1]) * _SECONDS[match[2] or "s"]
        return integer_latency(self.source, key, seconds * 10**9)


def _imported_routes(source: SourceFile, root: etree._Element) -> Imported:
    """Return the fabric of hosts, routers and links of zones, and of the routes between them."""
    words = _Platform(source)
    links: dict[str, etree._Element] = {}
    kinds: dict[str, str] = {}
    for element in root.iter():
        tag = element.tag
        if tag in ("host", "router", "link"):
            found: dict[str, Any] = links if tag == "link" else kinds
            name = words.name(element)
            if name in found:
                raise words.error(element, f"{format_value(name)} stands here a second time")
            found[name] = element if tag == "link" else tag
            check_import_size(source, nodes=len(kinds))
        elif tag not in _HARMLESS and tag not in _ROUTES and tag != "link_ctn":
            raise words.error(element, "is not read next to routes")
    title = next((str(one.get("id")) for one in root.iter("zone", "AS") if one.get("id")), source.stem)
    if not title.isprintable():
        raise source.error(f"id={format_value(title)}: expected one line without control characters")
    builder = TopologyBuilder(title)
    for name, kind in kinds.items():
        (builder.compute if kind == "host" else builder.switch)(name)
    shared = _take_routes(words, root, builder, kinds, links)
    hosts = sum(kind == "host" for kind in kinds.values())
    topology = builder.build()
    note = "carries both directions with one bandwidth; each direction is given all of it"
    warnings = (Finding(note, f"link {min(shared)}" + " and others" * (len(shared) > 1)),) if shared else ()
    recognised = {
        "routes": f"{topology.n_links} of one link each",
        "nodes": f"{hosts} hosts, {len(kinds) - hosts} routers",
        "rank order": "hosts in the order of the file",
    }
    return Imported(topology, "simgrid", recognised, warnings=warnings)


def _take_routes(
    words: _Platform,
    root: etree._Element,
    builder: TopologyBuilder,
    kinds: Mapping[str, str],
    links: Mapping[str, etree._Element],
) -> set[str]:
    """Add the links that routes cross; the names of those with one bandwidth for both directions."""
    joined: set[tuple[str, str]] = set()
    # for links and their directions, the pair whose route crosses them
    used: dict[tuple[str, str], tuple[str, str]] = {}
    shared: set[str] = set()
    for route in root.iter(*_ROUTES):
        tail, head = (words.choice(route, key) for key in _ROUTES[route.tag])
        for end in (tail, head):
            if end not in kinds:
                raise words.error(route, f"unknown host or router {format_value(end)}")
        if tail == head:
            continue  # within a host
        crossed = list(route.iter("link_ctn"))
        if len(crossed) != 1:
            count = f"{len(crossed)} links; in a graph each route is one link"
            raise words.error(route, f"{tail} to {head} crosses {count}")
        name = words.choice(crossed[0], "id")
        if name not in links:
            raise words.error(crossed[0], f"there is no link {format_value(name)}")
        link = links[name]
        speed, latency = words.speed(link, "bandwidth"), words.time(link, "latency", "0s")
        check_import_size(words.source, links=len(joined) + 2)
        policy = link.get("sharing_policy", "SHARED")
        if policy not in ("SHARED", "SPLITDUPLEX"):
            expected = "expected SHARED or SPLITDUPLEX"
            raise words.error(link, f"sharing_policy={format_value(policy)}: {expected}")
        direction = crossed[0].get("direction", "NONE")
        pairs = [((tail, head), direction)]
        if route.get("symmetrical", "YES").upper() in ("YES", "TRUE", "1"):
            turned = {"UP": "DOWN", "DOWN": "UP"}
            pairs.append(((head, tail), turned.get(direction, "NONE")))
        for pair, way in pairs:
            if pair in joined:
                raise words.error(route, f"{pair[0]} to {pair[1]} has a second route")
            joined.add(pair)
            other = used.setdefault((name, way if policy == "SPLITDUPLEX" else ""), pair)
            if other != pair:
                if (policy == "SPLITDUPLEX" and way != "NONE") or {*other} != {*pair}:
                    reason = f"from {other[0]} to {other[1]}, too; a link of a graph joins two nodes"
                    raise words.error(route, f"link {format_value(name)} is crossed {reason}")
                if policy == "SHARED":
                    shared.add(name)
            builder.link(*pair, speed, latency)
    return shared


class _Cluster(_Platform):
    """Attributes of the element, and the fabric that grows from them."""

    def __init__(self, source: SourceFile, element: etree._Element) -> None:
        super().__init__(source)
        self.element = element
        self.warnings: list[Finding] = []
        self.bandwidth = self.speed(element, "bw")
        self.latency = self.time(element, "lat")
        policy = self.given("sharing_policy", "SPLITDUPLEX")
        if policy != "SPLITDUPLEX":
            reason = "only SPLITDUPLEX is a link in each direction"
            raise self.wrong(f"sharing_policy={format_value(policy)}: {reason}")
        self.builder = TopologyBuilder(self.name(element))
        head, tail, radical = (self.given(*row) for row in (("prefix", ""), ("suffix", ""), ("radical",)))
        expected = f"<cluster> radical={format_value(radical)}: expected rising ranges such as 0-15,20"
        spans = number_spans(source, radical, expected, line_of(element))
        check_import_size(source, nodes=sum(last - first + 1 for first, last, _ in spans))
        self.hosts = [f"{head}{k}{tail}" for first, last, _ in spans for k in range(first, last + 1)]
        if len(self.hosts) < 2 or len(set(self.hosts)) < len(self.hosts):
            raise self.wrong(f"radical={format_value(radical)}: expected at least 2 hosts, each once")
        self.host_bandwidth = self.bandwidth
        """Bytes/s of a host's only link, each way."""
        self.is_limited = element.get("limiter_link") is not None
        if self.is_limited:
            self.host_bandwidth = min(self.bandwidth, self.speed(element, "limiter_link"))
            text = "is shared by what a host sends and receives; each direction is given all of it"
            self.warnings.append(Finding(text, "limiter_link"))

    def wrong(self, message: str) -> FormatError:
        return self.error(self.element, message)

    def given(self, key: str, default: str | None = None) -> str:
        return self.choice(self.element, key, default)

    def shape(self, parts: int, limited: str = "") -> list[list[int]]:
        """Numbers of ``2;4,4;1,2``, parted by semicolons; `limited`: why a limiter has no place in such."""
        if limited and self.is_limited:
            raise self.wrong(f"limiter_link: {limited}; it is read of flat clusters and dragonflies")
        text = self.given("topo_parameters")
        read = partial(integer, self.source, "topo_parameters", least=1, most=_MOST)
        found = [[read(item) for item in part.split(",")] for part in text.split(";")]
        if len(found) != parts:
            expected = f"expected {parts} parts with semicolons between"
            raise self.wrong(f"topo_parameters={format_value(text)}: {expected}")
        return found

    def add_hosts(self, count: int, nodes: int, links: int) -> None:
        """Add the hosts, if the shape has as many and the fabric is not too large."""
        if count != len(self.hosts):
            text = f"topo_parameters={format_value(self.given('topo_parameters'))}"
            raise self.wrong(f"{text} is of {count} hosts, radical of {len(self.hosts)}")
        check_import_size(self.source, nodes=nodes, links=links)
        for host in self.hosts:
            self.builder.compute(host)

    def join_host(self, host: str, switch: str) -> None:
        self.builder.duplex(host, switch, self.host_bandwidth, self.latency)

    def join(self, one: str, other: str, times: int = 1) -> None:
        for _ in range(times):
            self.builder.duplex(one, other, self.bandwidth, self.latency)


def _flat(cluster: _Cluster) -> str:
    """Build a crossbar. A backbone carries each message once, which links of a graph cannot model."""
    if cluster.element.get("bb_bw") is not None and cluster.given("bb_sharing_policy", "SHARED") != "FATPIPE":
        backbone = cluster.speed(cluster.element, "bb_bw")
        all_hosts = len(cluster.hosts) * cluster.host_bandwidth
        if backbone < all_hosts:
            one, other = map(format_link_bandwidth, (backbone, all_hosts))
            raise cluster.wrong(f"bb_bw: a backbone of {one} for hosts of {other} in total is not a graph")
    for host in cluster.hosts:
        cluster.builder.compute(host)
    crossbar = cluster.builder.switch("crossbar")
    for host in cluster.hosts:
        cluster.join_host(host, crossbar)
    return "a crossbar"


def _fat_tree(cluster: _Cluster) -> str:
    """Build levels from their children, parents and parallel links, from the hosts upwards.

    A node of level l has l digits below numbered by its parents' place and the others by children; those of
    neighbouring levels are joined where all digits but the one between them agree.
    """
    first, down, up, cables = cluster.shape(4, "switches of a fat tree have it too")
    levels = first[0]
    if len(first) != 1 or any(len(row) != levels for row in (down, up, cables)):
        raise cluster.wrong("topo_parameters: expected as many numbers in each part as there are levels")
    sizes = [math.prod(up[:level]) * math.prod(down[level:]) for level in range(levels + 1)]
    links = sum(2 * size * up[level] * cables[level] for level, size in enumerate(sizes[:-1]))
    cluster.add_hosts(math.prod(down), sum(sizes), links)
    names: list[dict[tuple[int, ...], str]] = []
    for level in range(levels + 1):
        # the first digit counts fastest
        digits = [range(up[k] if k < level else down[k]) for k in reversed(range(levels))]
        labels = [tuple(reversed(label)) for label in product(*digits)]
        row = cluster.hosts if not level else [f"level{level}.switch{k}" for k in range(len(labels))]
        names.append(dict(zip(labels, row, strict=True)))
        if level:
            for name in row:
                cluster.builder.switch(name)
    for level in range(levels):
        for label, name in names[level].items():
            for digit in range(up[level]):
                parent = (*label[:level], digit, *label[level + 1 :])
                cluster.join(name, names[level + 1][parent], cables[level])
    return f"{', '.join(map(str, sizes[1:]))} switches by level"


def _torus(cluster: _Cluster) -> str:
    (sizes,) = cluster.shape(1, "hosts of a torus pass on what is not theirs")
    cluster.add_hosts(math.prod(sizes), len(cluster.hosts), 2 * len(cluster.hosts) * len(sizes))
    stride = 1
    for size in sizes:
        for k, host in enumerate(cluster.hosts):
            place = k // stride % size
            onwards = k + stride * ((place + 1) % size - place)
            if onwards != k:
                cluster.join(host, cluster.hosts[onwards])
        stride *= size
    return "x".join(map(str, sizes))


def _dragonfly(cluster: _Cluster) -> str:
    """Build groups of chassis of blades with a router each; router j of a group leads to group j.

    Blades of a chassis are joined each with each (green), as are equal blades of a group's chassis (black).
    """
    parts = cluster.shape(4)
    if [len(part) for part in parts] != [2, 2, 2, 1]:
        raise cluster.wrong("topo_parameters: expected GROUPS,BLUE;CHASSIS,BLACK;BLADES,GREEN;NODES")
    (groups, blue), (chassis, black), (blades, green), (nodes,) = parts
    if groups > chassis * blades:
        needed = f"{groups} groups need as many routers in each, not {chassis * blades}"
        raise cluster.wrong(f"topo_parameters: {needed}")
    n = groups * chassis * blades
    most = 2 * (n * nodes + n * (blades * green + chassis * black) + groups * groups * blue)
    cluster.add_hosts(n * nodes, min(n * (nodes + 1), MAX_IMPORTED_NODES + 1), most)
    places = list(product(range(groups), range(chassis), range(blades)))
    router = {place: "group{}.chassis{}.router{}".format(*place) for place in places}
    for name in router.values():
        cluster.builder.switch(name)
    for k, name in enumerate(router.values()):
        for host in cluster.hosts[k * nodes : (k + 1) * nodes]:
            cluster.join_host(host, name)
    for group, box, blade in places:
        for other in range(blade):
            cluster.join(router[group, box, other], router[group, box, blade], green)
        for other in range(box):
            cluster.join(router[group, other, blade], router[group, box, blade], black)
    for group in range(groups):
        for other in range(group):
            one, two = divmod(other, blades), divmod(group, blades)
            cluster.join(router[group, *one], router[other, *two], blue)
    return f"{groups} groups of {chassis} chassis of {blades} blades of {nodes}"


_SHAPES = {"FLAT": _flat, "FAT_TREE": _fat_tree, "TORUS": _torus, "DRAGONFLY": _dragonfly}
