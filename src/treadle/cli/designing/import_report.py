"""``treadle topology import``: what a file of other tools says of a fabric."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from treadle.atomic import write_bytes
from treadle.cli.fabric_arguments import (
    BandwidthOption,
    BoxesOption,
    ChunkSizeOption,
    CpuLinkOption,
    FormatOption,
    GpuOption,
    LinksOption,
    NetworkOption,
    NicBandwidthOption,
    NicsOption,
    OversubscriptionOption,
    PcieBandwidthOption,
    PcieOption,
    TraysOption,
    UndirectedOption,
    WithoutOption,
    findings,
    import_keywords,
    left_of,
)
from treadle.cli.output import JsonOption, Output, QuietOption
from treadle.cli.quantities import counted
from treadle.planning import import_topology
from treadle.topologies import dump_topology, topology_hash
from treadle.topologies.readers.imported import Imported
from treadle.topologies.topology import Topology

FileArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="Of NCCL, nvidia-smi, ibnetdiscover, ...; told by its content."),
]


def import_command(
    path: FileArgument,
    file_format: FormatOption = None,
    boxes: BoxesOption = None,
    network: NetworkOption = None,
    nic_bandwidth: NicBandwidthOption = None,
    gpu: GpuOption = None,
    links: LinksOption = None,
    pcie: PcieOption = None,
    pcie_bandwidth: PcieBandwidthOption = None,
    cpu_link: CpuLinkOption = None,
    trays: TraysOption = None,
    nics: NicsOption = None,
    bandwidth: BandwidthOption = None,
    undirected: UndirectedOption = False,
    oversubscription: OversubscriptionOption = None,
    chunk_size: ChunkSizeOption = None,
    without: WithoutOption = None,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the fabric as Treadle's JSON.", writable=True)
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Read a fabric from a file of other tools; show what was recognised, taken for granted and doubted."""
    typed = {
        "boxes": boxes,
        "network": network,
        "nic_bandwidth": nic_bandwidth,
        "gpu": gpu,
        "links": links,
        "pcie": pcie,
        "pcie_bandwidth": pcie_bandwidth,
        "cpu_link": cpu_link,
        "trays": trays,
        "nics": nics,
        "bandwidth": bandwidth,
        "undirected": undirected,
        "oversubscription": oversubscription,
        "chunk_size": chunk_size,
    }
    output = Output(json, quiet)
    found = import_topology(path, format=file_format, **import_keywords(typed))
    fabric = left_of(found.topology, without)
    if target is not None:
        write_bytes(target, dump_topology(fabric).encode())
    for line in _lines(path, found, fabric):
        output.line(line)
    if target is not None:
        output.line(f"written     {target}")
    output.result(
        {
            "file": path,
            "format": found.format,
            "recognised": dict(found.recognised),
            **findings(found),
            "topology": fabric.name,
            "ranks": len(fabric.compute_nodes),
            "switches": len(fabric.switches),
            "nodes": fabric.n_nodes,
            "links": fabric.n_links,
            "hash": topology_hash(fabric),
            **({} if target is None else {"output": str(target)}),
        }
    )
    return 0


def _lines(path: str, found: Imported, fabric: Topology) -> Iterator[str]:
    """The report, a line for each subject and finding."""
    yield f"{'file':<11} {path}, read as {found.format}"
    for subject, text in found.recognised.items():
        yield f"{subject:<11} {text}"
    for what, several in (("defaulted", found.defaulted), ("warning", found.warnings)):
        for finding in several:
            yield f"{what:<11} {finding}"
    nodes = counted(len(fabric.compute_nodes), "compute node"), counted(len(fabric.switches), "switch")
    yield f"{'fabric':<11} {fabric.name}: {', '.join(nodes)}, {counted(fabric.n_links, 'link')}"
