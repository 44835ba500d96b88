"""The matrix of ``nvidia-smi topo -m``: NVLinks between GPUs, and how near NICs are.

It counts links and has no speeds: the model of the GPUs says them. Where direct links would take more than a
GPU has, they go to NVSwitches: a pair then shows the links of the GPU with fewer of them, so that a GPU that
lost some is reported. PIX and PXB are paths over PCIe switches alone; PHB, NODE and SYS go over CPUs. GPUs
of one CPU affinity are attached to one CPU. Meaning of the words: the legend that the tool itself prints.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, takewhile

from treadle.topologies.readers.boxes.box import (
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    HostLink,
    Nic,
    Slot,
    joined_parts,
)
from treadle.topologies.readers.boxes.gpu_models import (
    DEFAULT_LANES,
    GPU_MODELS,
    GpuModel,
    pcie_bandwidth,
)
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.boxes.wiring import asks_model, typed_model, wired_box
from treadle.topologies.readers.imported import (
    Finding,
    Imported,
    ImportOptions,
    LinkSpeeds,
    PcieDetail,
    SourceFile,
)

MAX_COLUMNS = 256
"""Most GPUs and NICs of a matrix."""
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_CELL = re.compile(r"X|NV([0-9]{1,4})|PIX|PXB|PHB|NODE|SYS|SOC")
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,4}):\s+(\S+)\s*")
_CPUS = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")
_NEAR = ("PIX", "PXB")
_ONE_CPU = (*_NEAR, "PHB", "NODE")


@dataclass(frozen=True)
class _Matrix:
    """The table: names of its columns, GPUs first, and the cells of the GPUs' rows, each with its line.

    `cpus` are the GPUs' affinities; "" where a row has none.
    """

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    cpus: tuple[str, ...]


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """The fabric of boxes as the matrix shows one; FormatError if it is malformed or does not say all."""
    return fabric_of(source, read_box(source, options), options, "nvidia-smi")


def read_box(source: SourceFile, options: ImportOptions) -> Box:
    """Return the box that a matrix shows.

    Raises
    ------
    FormatError
        If the matrix is malformed, has a GPU without NVLinks, or the model of the GPUs is not said.
    """
    name = typed_model(source, options, word="NVLink")
    matrix = _matrix(source)
    n = len(matrix.gpus)
    links = _link_counts(source, matrix)
    if not name:
        what = "counts NVLinks, and not how fast they are" if links else "shows no NVLinks"
        raise asks_model(source, what, "NVLink")
    model = GPU_MODELS[name]
    if not links and model.kind is not None and not model.is_card and n > 1:
        missing = f"shows no NVLinks between GPUs, of which a {name} has {model.links}"
        raise source.error(f"{missing} (does the fabric manager run?); if there are none, say --gpu pcie")
    counts = _switch_counts(source, matrix, links, name) or {pair: links[pair] for pair in links}
    bridges, slots = _pcie_tree(matrix, model, options)
    hosts = [number for number, bridge in enumerate(bridges) if bridge.kind is BridgeKind.HOST]
    n_switches = len(bridges) - len(hosts)
    asks_tree = options.pcie is PcieDetail.FULL or options.nics is not None
    is_apart = len(joined_parts(n, counts)) > 1
    uses_tree = (n_switches or asks_tree or is_apart) and options.pcie_bandwidth is None
    whom = "each GPU and PCIe switch" if asks_tree and n_switches else "each GPU"
    width = f"{DEFAULT_LANES} lanes of {model.gt_per_s} GT/s to {whom}, as of {name}"
    if not model.gt_per_s:
        width = "no less than what the NICs take, which the matrix does not say"
    return wired_box(
        source,
        [Gpu(name=gpu, model=name, slot=slots.get(number, Slot())) for number, gpu in enumerate(matrix.gpus)],
        counts,
        options,
        has_cpus=all(matrix.cpus),
        nics=[Nic(name=nic, slot=slots.get(number, Slot())) for number, nic in enumerate(matrix.nics, n)],
        bridges=bridges,
        host_links=[HostLink.by_library(*pair, None) for pair in combinations(hosts, 2)],
        defaulted=[Finding(f"PCIe: {width}")] if uses_tree else [],
        # as where the kernel knows of no NUMA nodes
        warnings=[
            Finding(f"{cell} to {other}, and CPUs {cpus} are those of both: taken as of one CPU", gpu)
            for gpu, cpus, row in zip(matrix.gpus, matrix.cpus, matrix.rows, strict=True)
            for other, other_cpus, cell in zip(matrix.gpus, matrix.cpus, row, strict=False)
            if cpus == other_cpus and cell in ("SYS", "SOC") and all(matrix.cpus)
        ][:1],
    )


def _matrix(source: SourceFile) -> _Matrix:
    """Return the first table, and the NICs' names from its legend."""
    lines = [_ESCAPE.sub("", line).split() for line in source.text.splitlines()]
    top = next((place for place, words in enumerate(lines) if words[:1] == ["GPU0"]), None)
    if top is None:
        raise source.error("has no line that begins with GPU0, as the matrix of nvidia-smi topo -m has")
    columns = list(takewhile(lambda word: word != "CPU", lines[top]))
    gpus = [word for word in columns if _GPU.fullmatch(word)]
    n = len(gpus)
    if gpus != columns[:n] or gpus != [f"GPU{number}" for number in range(n)]:
        raise source.error("expected GPU0, GPU1, ... and then NICs as columns", line=top + 1)
    if len(columns) > MAX_COLUMNS or len(set(columns)) < len(columns):
        raise source.error(f"expected at most {MAX_COLUMNS} different columns", line=top + 1)
    has_cpus = lines[top][len(columns) :][:2] == ["CPU", "Affinity"]
    rows: dict[str, tuple[int, tuple[str, ...], str]] = {}
    for place, words in enumerate(lines[top + 1 :], start=top + 2):
        if not words or words[0] == "Legend:":
            break
        if words[0] in gpus:
            if words[0] in rows:
                raise source.error(f"{words[0]} has a second row", line=place)
            affinity = "".join(words[len(columns) + 1 : len(columns) + 2]) if has_cpus else ""
            cpus = affinity if _CPUS.fullmatch(affinity) else ""
            rows[words[0]] = place, _cells(source, words, columns, place), cpus
        elif words[0] not in columns:
            raise source.error(f"row {words[0][:40]!r} is none of the columns", line=place)
    for gpu in gpus:
        if gpu not in rows:
            raise source.error(f"{gpu} has a column and no row")
    legend = {match[1]: match[2] for line in source.text.splitlines() if (match := _LEGEND.fullmatch(line))}
    names = [legend.get(nic, nic) for nic in columns[n:]]
    if len(set(names)) < len(names):
        names = columns[n:]
    places, cells, affinities = zip(*(rows[gpu] for gpu in gpus), strict=True)
    return _Matrix(tuple(gpus), tuple(names), cells, places, affinities)


def _cells(source: SourceFile, words: Sequence[str], columns: Sequence[str], line: int) -> tuple[str, ...]:
    cells = tuple(words[1 : len(columns) + 1])
    for column, cell in zip(columns, cells, strict=False):
        if not _CELL.fullmatch(cell) or (cell == "X") != (column == words[0]):
            expected = "expected NV and a number, PIX, PXB, PHB, NODE or SYS, and X for itself"
            raise source.error(f"{words[0]} to {column} is {cell[:20]!r}: {expected}", line=line)
    if len(cells) < len(columns):
        raise source.error(f"{words[0]}: {len(cells)} cells, expected {len(columns)}", line=line)
    return cells


def _link_counts(source: SourceFile, matrix: _Matrix) -> dict[tuple[int, int], int]:
    """Return the NVLinks by pairs; FormatError where the two rows of a pair differ."""
    counts = {}
    for one, (gpu, row, line) in enumerate(zip(matrix.gpus, matrix.rows, matrix.lines, strict=True)):
        for other, other_gpu in enumerate(matrix.gpus):
            back = matrix.rows[other][one]
            if row[other] != back:
                differs = f"is {row[other]}, but {back} in the opposite direction"
                raise source.error(f"{gpu} to {other_gpu} {differs}", line=line)
            match = _CELL.fullmatch(row[other])
            if match is not None and match[1] is not None:
                if int(match[1]) < 1:
                    raise source.error(f"{gpu}: NV0 is no link", line=line)
                counts[one, other] = int(match[1])
    return counts


def _switch_counts(
    source: SourceFile, matrix: _Matrix, links: Mapping[tuple[int, int], int], name: str
) -> dict[tuple[int, int | None], int]:
    """Return the NVLinks of each GPU to NVSwitches; none where the pairs may be joined directly.

    FormatError where most pairs are as NVSwitches make them, and one can neither be so nor be direct.
    """
    n, model = len(matrix.gpus), GPU_MODELS[name]
    cells = [[links.get((one, other), 0) for other in range(n)] for one in range(n)]
    most = max(range(n), key=lambda gpu: sum(cells[gpu]))
    if sum(cells[most]) <= model.links:
        return {}
    # a pair shows the lesser of two counts, so a GPU's largest cell is its own count; only the GPU that alone
    # has most links may have more, which no other GPU would ever receive
    own = [max(row) for row in cells]
    pairs = list(combinations(range(n), 2))
    odd = [(one, other) for one, other in pairs if cells[one][other] != min(own[one], own[other])]
    if not odd:
        return {(gpu, None): count for gpu, count in enumerate(own) if count}
    shown, times = Counter(cells[one][other] for one, other in pairs).most_common(1)[0]
    if not shown or 2 * times <= len(pairs):
        return {}
    one, other = odd[0]
    cell = f"{matrix.gpus[one]} to {matrix.gpus[other]} is {matrix.rows[one][other]}"
    by_switch = f"over NVSwitches it would be NV{min(own[one], own[other])}, as to other GPUs"
    direct = f"without NVSwitches {matrix.gpus[most]} would have {sum(cells[most])} links"
    has = f"{name} have {model.links}"
    raise source.error(f"{cell}: {by_switch}; {direct}, {has}", line=matrix.lines[one])


def _pcie_tree(
    matrix: _Matrix, model: GpuModel, options: ImportOptions
) -> tuple[list[Bridge], dict[int, Slot]]:
    """CPUs where all affinities are said, and a PCIe switch for each set of GPUs and NICs that are near.

    NICs are numbered after the GPUs. A NIC that is near to none is attached to the CPU of the GPUs with which
    it shares one by its cells.
    """
    n, n_devices = len(matrix.gpus), len(matrix.gpus) + len(matrix.nics)
    speed = options.pcie_bandwidth
    if speed is None and model.gt_per_s:
        speed = pcie_bandwidth(Fraction(model.gt_per_s), DEFAULT_LANES, options.links or LinkSpeeds.NOMINAL)

    def slot(device: int, above: int) -> Slot:
        return Slot(above=above, bandwidth=speed if device < n else None)

    known = list(dict.fromkeys(matrix.cpus)) if all(matrix.cpus) else []
    bridges = [Bridge(kind=BridgeKind.HOST, name=f"CPUs {cpus}") for cpus in known]
    host_of = {gpu: known.index(cpus) for gpu, cpus in enumerate(matrix.cpus) if known}
    for nic in range(n, n_devices):
        sharing = {host_of.get(gpu) for gpu, row in enumerate(matrix.rows) if row[nic] in _ONE_CPU}
        if len(sharing) == 1 and (host := sharing.pop()) is not None:
            host_of[nic] = host
    slots = {device: slot(device, host) for device, host in host_of.items()}
    near = [
        (gpu, other)
        for gpu, row in enumerate(matrix.rows)
        for other, cell in enumerate(row)
        if cell in _NEAR and other > gpu
    ]
    for part in joined_parts(n_devices, near):
        if len(part) > 1:
            name = f"switch of {matrix.gpus[part[0]]}"
            shared = {host_of.get(member) for member in part if member < n}
            slots |= {member: slot(member, len(bridges)) for member in part}
            # as wide upwards as to a GPU, which is how switches with a GPU below are built
            above = shared.pop() if len(shared) == 1 else None
            bridges.append(Bridge(kind=BridgeKind.SWITCH, name=name, above=above, bandwidth=speed))
    return bridges, slots
