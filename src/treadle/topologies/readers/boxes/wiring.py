"""The links between the GPUs of a box: as a file counts them, or as whole boxes of a model are wired.

Unknown facts must be given: GPUs whose model has links are not assumed to use PCIe because a file lacks
their links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from treadle.errors import FormatError
from treadle.spelling import did_you_mean, similarly_spelt
from treadle.topologies.readers.boxes.box import Box, Gpu, GpuLink, joined_parts, rank_order
from treadle.topologies.readers.boxes.gpu_models import (
    GPU_MODELS,
    LinkKind,
    Wiring,
    model_of_device,
    nvlink_of,
    xgmi_of,
)
from treadle.topologies.readers.imported import Finding, ImportOptions, LinkSpeeds, PcieDetail, SourceFile
from treadle.units import format_link_bandwidth

LinkCounts = Mapping[tuple[int, int | None], int]
"""Parallel links by (GPU, other GPU or None for the switch), as each GPU counts its own."""


@dataclass(frozen=True)
class Wired:
    """Links among the GPUs of a box.

    Parameters
    ----------
    links : tuple of GpuLink
        The switch's first, then pairs in order.
    word : str
        ``NVLink`` or ``xGMI``.
    defaulted, warnings : tuple of Finding
    """

    links: tuple[GpuLink, ...] = ()
    word: str = "NVLink"
    defaulted: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()


def typed_model(source: SourceFile, options: ImportOptions, *, word: str = "") -> str:
    """Return the model that ``--gpu`` names; "" where nothing was said, FormatError for an unknown one.

    `word`, if there is one, is what links of the file's GPUs are called.
    """
    if options.gpu is None:
        return ""
    name = similarly_spelt(options.gpu, GPU_MODELS)
    if name is None:
        hint, known = did_you_mean(options.gpu, GPU_MODELS), ", ".join(GPU_MODELS)
        expected = f"{hint} Expected" if hint else "; expected"
        raise source.error(f"--gpu {options.gpu[:40]!r} is not known{expected} one of {known}")
    kind = GPU_MODELS[name].kind
    if word and kind is not None and kind.word != word:
        raise source.error(f"--gpu {name}: has {kind.word} links, the GPUs of such a file have {word}")
    return name


def check_model(source: SourceFile, gpu: Gpu, sm: int, gcn: str) -> None:
    """Raise FormatError if what the file says of a GPU contradicts the model that its user names."""
    model = GPU_MODELS[gpu.model] if gpu.model else None
    if model is None or model.kind is None:
        return
    differs = sm and model.sm != sm and not (model.sm >= 100 and sm >= 100)
    if differs or (gcn and xgmi_of(gcn) not in (None, model.kind)):
        raise source.error(f"--gpu {gpu.model}: {gpu.name} is of another kind, {gpu.generation}")


def model_by_device(source: SourceFile, typed: str, name: str, vendor: int, device: int) -> str:
    """Return the model that a GPU's user names, else that of its PCI identifiers; "" for an unknown one.

    FormatError if the two have links of different kinds.
    """
    known = model_of_device(vendor, device)
    kind = GPU_MODELS[typed].kind if typed else None
    if known and kind is not None and GPU_MODELS[known].kind not in (None, kind):
        raise source.error(f"--gpu {typed}: {name} is of another kind, {known} by its PCI identifiers")
    return typed or known


def link_kind(gpu: Gpu) -> LinkKind | None:
    """Kind of a GPU's links, by its generation or its model; None if it has none or that is unknown."""
    family, _, number = gpu.generation.partition(" ")
    if family == "sm":
        return nvlink_of(int(number))
    if gpu.generation:
        return xgmi_of(gpu.generation)
    return GPU_MODELS[gpu.model].kind if gpu.model else None


def wire(
    source: SourceFile,
    gpus: Sequence[Gpu],
    counts: LinkCounts,
    options: ImportOptions,
    *,
    has_cpus: bool = True,
) -> Wired:
    """Join GPUs by the links that a file counts, or by those of their model.

    Parameters
    ----------
    source : SourceFile
        For messages.
    gpus : sequence of Gpu
        With the model that ``--gpu`` names, if any.
    counts : mapping
    options : ImportOptions
    has_cpus : bool
        Whether the file gives the CPU of each GPU, so that PCIe can join what links do not.

    Raises
    ------
    FormatError
        If links contradict each other, or a GPU has none although its model has and nothing shows that this
        one has not; then the message names the option that does.
    """
    if not counts:
        return _from_models(source, gpus, options)
    totals = [0] * len(gpus)
    for (one, _), count in counts.items():
        totals[one] += count
    models = [GPU_MODELS.get(gpu.model) for gpu in gpus]
    for gpu, model, total in zip(gpus, models, totals, strict=True):
        if model is not None and model.kind is not None and total > model.links:
            name = f"{gpu.name} has {total} {model.kind.word} links"
            raise source.error(f"{name}, {gpu.model} have {model.links}; is it of another model (--gpu)?")
    links = []
    speeds = options.links or LinkSpeeds.NOMINAL
    # the switch's links first
    for one, other in sorted(counts, key=lambda pair: (pair[1] is not None, pair[0], pair[1] or 0)):
        count = counts[one, other]
        if other is not None and counts.get((other, one)) != count:
            back = f"{gpus[other].name}, which has {counts.get((other, one), 0)} to it"
            raise source.error(f"{gpus[one].name} has {count} links to {back}")
        if other is None or one < other:
            rates = []
            for gpu in [gpus[one]] if other is None else [gpus[one], gpus[other]]:
                if (kind := link_kind(gpu)) is None:
                    known = f"GPUs of {gpu.generation} have no known speed"
                    reason = known if gpu.generation else "the file does not say"
                    speed = f"which speed its links have, {reason}; name its model by --gpu"
                    raise source.error(f"{gpu.name}: {speed}")
                rates.append(kind.speed(speeds))
            links.append(GpuLink(gpu=one, other=other, count=count, bandwidth=count * min(rates)))
    kinds = dict.fromkeys(kind for kind in map(link_kind, gpus) if kind is not None)
    word = next(iter(kinds)).word  # that of the first GPU, whatever other kinds there are
    # GPUs are cards: of a model of cards, or without NVSwitches, and none has lost a link
    own_links = [None if model is None else model.links for model in models]
    has_all = own_links == totals and all(other is not None for _, other in counts)
    is_bridged = has_all or all(model is not None and model.is_card for model in models)
    is_whole = has_cpus and is_bridged
    if word == "NVLink" and options.pcie is not PcieDetail.FULL and not is_whole:  # xGMI hives may be several
        _check_all_joined(source, gpus, links, _OVER_PCIE if has_cpus else _BY_A_DUMP)
    amounts = ", ".join(map(format_link_bandwidth, sorted({kind.speed(speeds) for kind in kinds})))
    speed_note = Finding(f"each {word} link carries {amounts} each way ({speeds})")
    uneven = [
        Finding(f"has {total} {word} links, another GPU has {max(totals)}", gpu.name)
        for gpu, total in zip(gpus, totals, strict=True)
        if total < max(totals)
    ]
    return Wired(tuple(links), word, (speed_note,), tuple(uneven))


def wired_box(
    source: SourceFile,
    gpus: Sequence[Gpu],
    counts: LinkCounts,
    options: ImportOptions,
    *,
    has_cpus: bool = True,
    may_be_alone: bool = False,
    defaulted: Iterable[Finding] = (),
    warnings: Iterable[Finding] = (),
    **parts: Any,
) -> Box:
    """Return the box of GPUs in the order of a file, and of other `parts`; FormatError as of `wire`.

    `may_be_alone`: whether one GPU without links is taken as it is.
    """
    order = rank_order(gpus)
    place_of: dict[int | None, int | None] = {number: place for place, number in enumerate(order)}
    gpus = [gpus[number] for number in order]
    placed = {(order.index(one), place_of.get(other)): count for (one, other), count in counts.items()}
    is_alone = may_be_alone and len(gpus) == 1 and not counts
    wired = Wired() if is_alone else wire(source, gpus, placed, options, has_cpus=has_cpus)
    lists = {name: tuple(part) for name, part in parts.items() if isinstance(part, list)}
    return Box(
        gpus=tuple(gpus),
        links=wired.links,
        link_word=wired.word,
        defaulted=(*wired.defaulted, *defaulted),
        warnings=(*wired.warnings, *warnings),
        **parts | lists,
    )


_OVER_PCIE = "if that is how it is, --pcie full joins them over PCIe"
_BY_A_DUMP = (
    "if that is how it is, read a dump of the machine (NCCL_TOPO_DUMP_FILE) with --pcie full: this file does "
    "not say how PCIe joins them"
)


def _check_all_joined(source: SourceFile, gpus: Sequence[Gpu], links: Iterable[GpuLink], fix: str) -> None:
    """Reject NVLinks that leave GPUs out."""
    n, ends = len(gpus), [(link.gpu, link.other) for link in links]
    alone = set(range(n)) - {end for pair in ends for end in pair}
    if alone:
        raise source.error(f"{gpus[min(alone)].name} has no NVLinks, other GPUs have; {fix}")
    if len(parts := joined_parts(n, ends)) > 1:
        names = " and ".join(gpus[part[0]].name for part in parts[:2])
        raise source.error(f"no NVLinks join {names}; {fix}")


def _from_models(source: SourceFile, gpus: Sequence[Gpu], options: ImportOptions) -> Wired:
    """Return the links of boxes whose GPUs are of one model; none where the GPUs have none."""
    names = sorted({gpu.model for gpu in gpus})
    if names == [""]:
        # right for GPUs that have no links; of others the model is needed
        for gpu in gpus:
            family, _, number = gpu.generation.partition(" ")
            if not gpu.generation or (family == "sm" and int(number) >= 70):
                what = f" ({gpu.generation})" if gpu.generation else ""
                reason = f"has no links of {gpu.name}{what}"
                raise asks_model(source, reason, "NVLink" if family == "sm" else "")
        return Wired(word="xGMI" if xgmi_of(gpus[0].generation) else "NVLink")
    if len(names) > 1:
        found = " and ".join(name or "unknown ones" for name in names)
        raise source.error(f"has GPUs of several models ({found}) and no links; name one by --gpu")
    name, model, n = names[0], GPU_MODELS[names[0]], len(gpus)
    if model.kind is None or (model.is_card and n > 1):
        return Wired(defaulted=(Finding("GPUs without links of their own: joined over PCIe"),))
    word = model.kind.word
    if n == 1:
        return Wired(word=word)
    if n not in model.boxes:
        reason = f"has {n} GPUs and none of their {word}s, and boxes of {n} {name} are not all wired equally"
        fix = "read a file that has them, such as NCCL's own (NCCL_TOPO_DUMP_FILE), or say --gpu pcie"
        raise source.error(f"{reason}; {fix}")
    speed = model.kind.speed(options.links or LinkSpeeds.NOMINAL)
    ends: list[tuple[int, int | None]] = [*combinations(range(n), 2)]
    count, how = 1, f"one {word} link between each two GPUs"
    if model.boxes[n] is Wiring.SWITCH:
        ends = [(one, None) for one in range(n)]
        count, how = model.links, f"{model.links} {word}s from each GPU to NVSwitches"
    links = [GpuLink(gpu=one, other=other, count=count, bandwidth=count * speed) for one, other in ends]
    text = f"{how}, {format_link_bandwidth(speed)} each: boxes of {n} {name} are so; the file has none"
    return Wired(tuple(links), word, (Finding(text),))


def asks_model(source: SourceFile, reason: str, word: str = "") -> FormatError:
    """Return the error if the model of the GPUs is needed; `word` is the name of their links."""
    known = []
    for name, model in GPU_MODELS.items():
        if word in ("", model.kind.word) if model.kind else model.is_card and word != "xGMI":
            known.append(name)
    listed = f"{', '.join(known)}, or pcie for another one without links"
    return source.error(f"{reason}; name their model by --gpu: {listed}")
