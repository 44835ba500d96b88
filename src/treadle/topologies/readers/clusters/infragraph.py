"""InfraGraph's infrastructures (YAML or JSON): devices of components, instances of devices, links and edges.

Two generations are read: `edges` with endpoints in slice notation (``host[0:2]``, ``nic[1]``), and the older
`connections`, one dotted line each (``server.0.nic.1.eth.leaf.0.port.3``). Components of type xpu are the
compute nodes; all others pass on what they get, and those that lead nowhere are left out. A device without
any xpu or cpu whose inner links have no bandwidth is one switch. Where no device with an xpu is described,
instances whose links begin at a component called nic are the ranks.

Source: the schema of InfraGraph (Keysight), "Infrastructure", "Device", "Edge", "Link".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from treadle.input_files import parse_json
from treadle.topologies.readers.checked_values import check_import_size, missing_option
from treadle.topologies.readers.clusters.infra_endpoints import (
    Device,
    Infrastructure,
    link_speed,
    read_infrastructure,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.readers.yaml_source import parse_yaml
from treadle.topologies.topology import TopologyBuilder


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of an infrastructure; FormatError if it is malformed or has links without a speed."""
    is_json = source.text.lstrip()[:1] == "{"
    document = parse_json(source.text, source=source.name) if is_json else parse_yaml(source)
    return _Graph(read_infrastructure(source, document)).imported(options)


@dataclass
class _Graph:
    """Nodes and edges that the instances make."""

    found: Infrastructure
    kinds: dict[str, str] = field(default_factory=dict)
    """Type of each node's component; of an instance that is one node, "switch" or "host"."""
    edges: list[tuple[str, str, int, int, str]] = field(default_factory=list)
    """Ends, bytes/s (0 where none is said), nanoseconds and the link's name."""
    notes: list[Finding] = field(default_factory=list)

    def imported(self, options: ImportOptions) -> Imported:
        source = self.found.source
        self._expand()
        ranks = "xpu" if "xpu" in self.kinds.values() else "host"
        if ranks not in self.kinds.values():
            raise source.error("no device has a component of type xpu, and none that is missing has a nic")
        kept = self._kept(ranks)
        edges = [edge for edge in self.edges if edge[0] in kept and edge[1] in kept]
        unsaid = sorted({edge[4] for edge in edges if not edge[2]})
        if unsaid and options.bandwidth is None:
            raise missing_option(source, "bandwidth", f"links {', '.join(unsaid)[:80]} have no bandwidth")
        builder = TopologyBuilder(self.found.name)
        for node, kind in self.kinds.items():
            if node in kept:
                (builder.compute if kind == ranks else builder.switch)(node)
        for one, other, speed, wait, _ in edges:
            builder.duplex(one, other, speed or options.bandwidth or 0, wait)
        topology = builder.build()
        if len(topology.compute_nodes) < 2:
            raise source.error(f"has {len(topology.compute_nodes)} ranks; a fabric has at least 2")
        if gone := len(self.kinds) - len(kept):
            self.notes.append(Finding(f"{gone} components that lead nowhere are left out"))
        filled = Finding(f"links {', '.join(unsaid)[:80]} take --bandwidth")
        found = {
            "ranks": f"{len(topology.compute_nodes)} {'XPUs' if ranks == 'xpu' else 'instances'}",
            "switches": f"{len(topology.switches)} switches and other components",
            "links": f"{topology.n_links} directed",
            "rank order": "instances and components in the order of the file",
        }
        return Imported(topology, "infragraph", found, (filled,) if unsaid else (), tuple(self.notes))

    def _expand(self) -> None:
        found, source = self.found, self.found.source
        # a device that is not described is one node
        devices = [(found.devices.get(name), count) for name, count in found.instances.values()]
        check_import_size(source, nodes=sum(count * (one.n_nodes if one else 1) for one, count in devices))
        lone = self._single_nodes()
        links = sum(edge.n_pairs for edge in found.edges)
        links += sum(count * edge.n_pairs for one, count in devices if one for edge in one.edges)
        check_import_size(source, links=2 * links)
        for name, (device, count) in found.instances.items():
            for k in range(count):
                if name in lone:
                    self.kinds[f"{name}.{k}"] = lone[name]
                else:
                    self._expand_device(f"{name}.{k}.", found.devices[device])
        for edge in found.edges:
            speed = link_speed(source, found.links, edge.link)
            for pair in edge.pairs():
                ends = [end.split(".") for end in pair]
                one, other = (".".join(parts[: 2 if parts[0] in lone else 4]) for parts in ends)
                for end in (one, other):
                    if end not in self.kinds:
                        raise source.error(f"{edge.place}: there is no {end}")
                if one != other:
                    self.edges.append((one, other, *speed, edge.link))

    def _expand_device(self, prefix: str, device: Device) -> None:
        for component, count, kind in device.components:
            for k in range(count):
                self.kinds[f"{prefix}{component}.{k}"] = kind
        for edge in device.edges:
            speed = link_speed(self.found.source, device.links, edge.link)
            for one, other in edge.pairs():
                self.edges.append((prefix + one, prefix + other, *speed, edge.link))

    def _single_nodes(self) -> dict[str, str]:
        """Return instances that are one node: of devices that are not described, and of plain switches."""
        found: dict[str, str] = {}
        for name, (device, _) in self.found.instances.items():
            known = self.found.devices.get(device)
            if known is not None:
                inner = [link_speed(self.found.source, known.links, edge.link)[0] for edge in known.edges]
                kinds = {kind for _, _, kind in known.components}
                if not any(inner) and kinds.isdisjoint(("xpu", "cpu", "device")):
                    found[name] = "switch"
                continue
            nodes = (parts for edge in self.found.edges for parts in edge.nodes())
            used = {parts[2] for parts in nodes if parts[0] == name}  # components at which its links end
            if not (used <= {"nic"} or used <= {"port"}):
                raise self.found.source.error(f"instances {name}: device {device!r} is not in the file")
            found[name] = "host" if used == {"nic"} else "switch"
            role = "ranks, since their links begin at a nic" if used == {"nic"} else "switches"
            text = f"device {device} is not in the file; its instances are taken as {role}"
            self.notes.append(Finding(text, f"instances {name}"))
        return found

    def _kept(self, ranks: str) -> set[str]:
        """Return the nodes but for those that hang at one other node only, again and again; ranks always."""
        near: dict[str, set[str]] = {node: set() for node in self.kinds}
        for one, other, *_ in self.edges:
            near[one].add(other)
            near[other].add(one)
        waiting = [node for node, others in near.items() if len(others) < 2]
        gone: set[str] = set()
        while waiting:
            node = waiting.pop()
            if node in gone or self.kinds[node] == ranks:
                continue
            gone.add(node)
            for other in near[node]:
                near[other].discard(node)
                if len(near[other]) < 2:
                    waiting.append(other)
        return set(self.kinds) - gone
