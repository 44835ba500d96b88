"""The fabric that a command is about: an expression or a file of anyone's, with what the file does not say.

Every command with a parameter `topology`, and those whose `plan` may be a fabric, take ``--without`` and the
options below, which help hides but for one line; their functions get a `Topology` in the place of the text.
Libraries are loaded when a command runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from treadle.errors import FormatError

if TYPE_CHECKING:
    from treadle.topologies.readers.imported import Imported, ImportKeywords
    from treadle.topologies.topology import Topology

FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="Of a file whose content does not tell it.", metavar="FORMAT"),
]
BoxesOption = Annotated[
    int | None, typer.Option("--boxes", min=1, help="How many such boxes there are; default 1.", metavar="N")
]
NetworkOption = Annotated[
    str | None,
    typer.Option(
        "--network",
        help="What joins boxes: one-switch; rail (NIC k of every box to switch k); rails:K (to switch k mod "
        "K); leaf-spine:L,S[,over] (boxes in order below L leaves, S spines, over:1 oversubscribed).",
        metavar="SHAPE",
    ),
]
NicBandwidthOption = Annotated[
    str | None,
    typer.Option("--nic-bandwidth", help="Of each NIC, in each direction, as 50GB/s.", metavar="RATE"),
]
GpuOption = Annotated[
    str | None,
    typer.Option("--gpu", help="Model of the GPUs, as h100; pcie: one without links.", metavar="MODEL"),
]
LinksOption = Annotated[
    str | None,
    typer.Option("--links", help="Speeds: nominal (default), or those of the library.", metavar="WHICH"),
]
PcieOption = Annotated[
    str | None,
    typer.Option(
        "--pcie", help="near (default): GPU, lowest shared switch, NIC; full: the whole tree.", metavar="PART"
    ),
]
PcieBandwidthOption = Annotated[
    str | None,
    typer.Option("--pcie-bandwidth", help="Of each GPU's PCIe link: gen4x16, 31.5GB/s.", metavar="RATE"),
]
CpuLinkOption = Annotated[
    str | None,
    typer.Option("--cpu-link", help="Between two CPUs of a box, in each direction.", metavar="RATE"),
]
TraysOption = Annotated[
    int | None,
    typer.Option("--trays", min=1, help="How many such trays NVSwitches join into a rack.", metavar="N"),
]
NicsOption = Annotated[
    str | None,
    typer.Option(
        "--nics",
        help="The NICs that are used: names with commas between, or all; default: those that share a switch "
        "with a GPU.",
        metavar="NAMES",
    ),
]
BandwidthOption = Annotated[
    str | None, typer.Option("--bandwidth", help="Of links for which the file has none.", metavar="RATE")
]
UndirectedOption = Annotated[
    bool, typer.Option("--undirected", help="Read edges of a directed graph as links each way.")
]
OversubscriptionOption = Annotated[
    str | None, typer.Option("--oversubscription", help="Of a tree of switches, as 8:1.", metavar="R:1")
]
ChunkSizeOption = Annotated[
    str | None,
    typer.Option(
        "--chunk-size",
        help="Of which a file has the costs, as 1MB (10**6 bytes; 1MiB is 2**20).",
        metavar="SIZE",
    ),
]
WithoutOption = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        help="What failed: links A--B (or 'A->B'), nodes, patterns.",
        metavar="NAME,...",
    ),
]

OPTIONS_OF_FILES = "Files of other tools: --boxes, --network, --gpu ...: see topology import."
"""What help says in place of them."""
_QUANTITIES = {
    "nic_bandwidth": "parse_bandwidth",
    "bandwidth": "parse_bandwidth",
    "cpu_link": "parse_bandwidth",
    "chunk_size": "parse_decimal_size",
}
"""Options that are typed with a unit, and what reads them."""


def fabric_options_stub(
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
) -> None:
    """Stands for ``--without`` and the options of an import; these have the names of `ImportOptions`."""


@cache
def _fabric_parameters() -> tuple[Any, ...]:
    app = typer.Typer(add_completion=False)
    app.command("import")(fabric_options_stub)
    found = tuple(one for one in get_command(app).params if one.name != "help")
    for one in found:
        one.hidden = one.name != "without"  # type: ignore[attr-defined]
    return found


def import_keywords(typed: Mapping[str, Any]) -> ImportKeywords:
    """Options as `treadle.planning.import_topology` takes them; FormatError for a quantity without unit."""
    from treadle import units

    found: dict[str, Any] = {}
    for name, value in typed.items():
        if value is not None and name in _QUANTITIES:
            try:
                value = getattr(units, _QUANTITIES[name])(value)
            except FormatError as error:
                raise FormatError(f"--{name.replace('_', '-')}: {error}") from None
        found[name] = None if value is False else value
    return found  # type: ignore[return-value]


def topology_text(text: str) -> Any:
    """What stands on the command line for a `Topology`, until `FabricCommand` puts that in its place."""
    return text


class FabricCommand(TyperCommand):
    """A command whose fabric, if it has one, is read with the options of an import and ``--without``."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._added: list[str] = []
        if any(one.name == "topology" or "TOPOLOGY" in str(one.metavar) for one in self.params):
            taken = {option for one in self.params for option in one.opts}
            for one in _fabric_parameters():
                if not taken & set(one.opts):
                    self.params.append(one)
                    self._added.append(one.name)

    def invoke(self, ctx: Any) -> Any:
        """Put the fabric in the place of its text, and run the command."""
        from treadle.cli.output import FINDINGS

        typed = {name: ctx.params.pop(name) for name in self._added if name in ctx.params}
        place, told = _place(ctx.params), None
        text = ctx.params.get(place)
        if isinstance(text, str) and not _is_plan(text):
            file_format = typed.pop("file_format", ctx.params.get("file_format"))
            failed = typed.pop("without", None)
            found = read_fabric(text, file_format, typed)
            if not ctx.params.get("quiet"):
                tell_warnings(found)
            told = findings(found) if found.format not in _OURS else None
            ctx.params[place] = left_of(found.topology, failed)
        else:
            plan = ctx.params.get("plan")
            _refuse(typed, plan if text is None and isinstance(plan, str) and _is_plan(plan) else text)
        token = FINDINGS.set(told)
        try:
            return super().invoke(ctx)
        finally:
            FINDINGS.reset(token)

    @property
    def takes_files(self) -> bool:
        """Whether the options of an import hold."""
        return bool(self._added)


def read_fabric(text: str, file_format: str | None, typed: Mapping[str, Any]) -> Imported:
    """The fabric of an expression or a file, and what was recognised."""
    from treadle.planning import import_options
    from treadle.topologies.expressions import parse_imported

    return parse_imported(text, format=file_format, options=import_options(**import_keywords(typed)))


def left_of(topology: Topology, failed: Sequence[str] | None) -> Topology:
    """The fabric without what ``--without`` names."""
    if not failed:
        return topology
    from treadle.topologies.transforms.failures import without_failures

    return without_failures(topology, failed)


def _place(values: Mapping[str, Any]) -> str:
    """The parameter that names the fabric: where both may, a plan's place with a collective behind it."""
    if values.get("topology") is None and values.get("collective") is not None and "plan" in values:
        return "plan"
    return "topology"


_OURS = ("catalogue", "json")
"""Whose fabrics say everything themselves."""


def findings(found: Imported) -> dict[str, object]:
    """What an import took as usual and what it doubts, as JSON has them."""
    return {
        "defaulted": [asdict(finding) for finding in found.defaulted],
        "warnings": [asdict(finding) for finding in found.warnings],
    }


def tell_warnings(found: Imported) -> None:
    """What an import doubts, a line each on stderr."""
    from treadle.cli.output import warn

    for warning in found.warnings:
        warn(f"warning: {warning}")


def _is_plan(text: str) -> bool:
    from treadle.input_files import is_plan_file

    return is_plan_file(text)


def _refuse(typed: Mapping[str, Any], text: str | None) -> None:
    """FormatError if an option is about a fabric and none is read."""
    for name, value in typed.items():
        if value:
            option = "--format" if name == "file_format" else f"--{name.replace('_', '-')}"
            where = "no fabric is named" if text is None else f"{text} is a plan, which has its own"
            what = "a fabric" if name == "without" else "a file with a fabric"
            remedy = "; treadle repair plans anew after a failure" if name == "without" and text else ""
            raise FormatError(f"{option} is about {what}, and {where}{remedy}")
