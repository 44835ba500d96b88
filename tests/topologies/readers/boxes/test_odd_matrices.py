"""Matrices of nvidia-smi and tables of AMD's tools cell by cell: odd boxes as values, refusals in full."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.boxes import amd_tables, nvidia_smi
from treadle.topologies.readers.boxes.box import Box, BridgeKind
from treadle.topologies.readers.imported import Imported, ImportOptions, LinkSpeeds, SourceFile

GB = 10**9


def smi(text: str, **options: Any) -> Box:
    given = {"gpu": "v100", **options}
    return nvidia_smi.read_box(SourceFile(text, "smi.txt"), ImportOptions(**given))


ODD = """noise before
\x1b[4m	GPU0	GPU1	GPU2	NIC0	NIC1	mlx5_9	CPU Affinity	NUMA\x1b[0m
GPU0	 X 	NV2	SYS	PIX	NODE	PHB	0-7	0
GPU1	NV2	 X 	NV1	PXB	SYS	SYS	0-7	0
GPU2	SYS	NV1	 X 	SYS	SYS	PXB	8-15	1
NIC0	PIX	PXB	SYS	 X

Legend:
  NIC0: mlx5_3
  NIC1: mlx5_4
"""


def test_an_odd_matrix() -> None:
    """Unequal links; GPUs 0 and 1 share a switch with NIC 0, GPU 2 with the last; NIC 1 is at a CPU."""
    box = smi(ODD)
    assert [(gpu.name, gpu.model, gpu.slot.above, gpu.slot.bandwidth) for gpu in box.gpus] == [
        ("GPU0", "v100", 2, 15_753_846_153),
        ("GPU1", "v100", 2, 15_753_846_153),
        ("GPU2", "v100", 3, 15_753_846_153),
    ]
    assert [(link.gpu, link.other, link.count, link.bandwidth) for link in box.links] == [
        (0, 1, 2, 50 * GB),
        (1, 2, 1, 25 * GB),
    ]
    assert [(nic.name, nic.slot.above, nic.slot.bandwidth) for nic in box.nics] == [
        ("mlx5_3", 2, None),
        ("mlx5_4", 0, None),
        ("mlx5_9", 3, None),
    ]
    assert [(one.kind, one.name, one.above) for one in box.bridges] == [
        (BridgeKind.HOST, "CPUs 0-7", None),
        (BridgeKind.HOST, "CPUs 8-15", None),
        (BridgeKind.SWITCH, "switch of GPU0", 0),
        (BridgeKind.SWITCH, "switch of GPU2", 1),
    ]
    assert {bridge.bandwidth for bridge in box.bridges[2:]} == {15_753_846_153}
    assert [(joint.one, joint.other, joint.bandwidth) for joint in box.host_links] == [(0, 1, None)]
    assert box.defaulted[-1].text == "PCIe: 16 lanes of 8 GT/s to each GPU, as of v100"
    library = smi(ODD, links=LinkSpeeds.LIBRARY)
    assert [link.bandwidth for link in library.links] == [40 * GB, 20 * GB]
    assert library.gpus[0].slot.bandwidth == 12 * GB


def square(cell: str, n: int, *, nics: int = 0) -> str:
    names = [*(f"GPU{k}" for k in range(n)), *(f"NIC{k}" for k in range(nics))]
    lines = ["\t".join(["", *names])]
    lines += [
        "\t".join([f"GPU{k}", *("X" if j == k else cell for j in range(n)), *["PIX"] * nics])
        for k in range(n)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("cell", "n", "model", "switch"),
    [
        ("NV2", 4, "v100", False),
        ("NV3", 4, "v100", True),
        ("NV6", 2, "v100", False),
        ("NV12", 8, "a100", True),
    ],
)
def test_more_links_than_a_gpu_has_are_those_to_a_switch(cell: str, n: int, model: str, switch: bool) -> None:
    box = smi(square(cell, n), gpu=model)
    count = int(cell[2:])
    assert box.has_switch is switch
    assert {link.count for link in box.links} == {count}
    assert len(box.links) == (n if switch else n * (n - 1) // 2)


def test_models_without_a_known_pcie() -> None:
    box = smi(square("SYS", 2, nics=1), gpu="pcie")
    assert box.links == ()
    assert box.gpus[0].slot.bandwidth is None
    assert box.defaulted[-1].text == "PCIe: no less than what the NICs take, which the matrix does not say"
    alone = smi("\tGPU0\nGPU0\tX")
    assert (alone.links, len(alone.gpus)) == ((), 1)
    same = smi(ODD.replace("mlx5_4", "mlx5_3"))
    assert [nic.name for nic in same.nics] == ["NIC0", "NIC1", "mlx5_9"]


WORDS = "expected NV and a number, PIX, PXB, PHB, NODE or SYS, and X for itself"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", ": has no line that begins with GPU0, as the matrix of nvidia-smi topo -m has"),
        (
            ODD.replace("GPU0	GPU1	GPU2	NIC0", "GPU0	GPU2	GPU1	NIC0"),
            ":2: expected GPU0, GPU1, ... and then NICs as columns",
        ),
        (
            ODD.replace("GPU1	GPU2	NIC0	NIC1", "GPU1	NIC0	GPU2	NIC1"),
            ":2: expected GPU0, GPU1, ... and then NICs as columns",
        ),
        (
            ODD.replace("NIC0	NIC1	mlx5_9", "NIC0	NIC0	mlx5_9"),
            ":2: expected at most 256 different columns",
        ),
        (square("SYS", 257), ":1: expected at most 256 different columns"),
        (ODD.replace("GPU2	SYS", "GPU1	SYS"), ":5: GPU1 has a second row"),
        (
            ODD.replace("NIC0	PIX", "GPU0	 X 	NV2	SYS	PIX	NODE	PHB\nNIC0	PIX"),
            ":6: GPU0 has a second row",
        ),
        (ODD.replace("NIC0	PIX", "NIC7	PIX"), ":6: row 'NIC7' is none of the columns"),
        (
            ODD.replace("GPU2	SYS	NV1	 X 	SYS	SYS	PXB	8-15	1\n", ""),
            ": GPU2 has a column and no row",
        ),
        (
            ODD.replace("PIX	NODE	PHB	0-7", "PIX"),
            f":3: GPU0 to NIC1 is '0': {WORDS}",
        ),
        (ODD.replace("PIX	NODE	PHB	0-7	0", "PIX"), ":3: GPU0: 4 cells, expected 6"),
        (
            ODD.replace("GPU0	 X ", "GPU0	NV1"),
            f":3: GPU0 to GPU0 is 'NV1': {WORDS}",
        ),
        (
            ODD.replace("GPU0	 X 	NV2", "GPU0	 X 	NV3"),
            ":3: GPU0 to GPU1 is NV3, but NV2 in the opposite direction",
        ),
        (ODD.replace("NV1", "NV0"), ":4: GPU1: NV0 is no link"),
    ],
)
def test_matrices_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        smi(text)
    assert str(refused.value).startswith(f"smi.txt{message}")


def test_matrices_ask_for_the_model() -> None:
    for text, what in (
        (ODD, "counts NVLinks, and not how fast they are"),
        (square("SYS", 2), "shows no NVLinks"),
    ):
        with pytest.raises(FormatError, match=f"smi.txt: {what}; name their model by --gpu: p100, v100"):
            smi(text, gpu=None)
    with pytest.raises(FormatError) as refused:
        smi(square("SYS", 2))
    assert str(refused.value) == (
        "smi.txt: shows no NVLinks between GPUs, of which a v100 has 6 (does the fabric manager run?); "
        "if there are none, say --gpu pcie"
    )


BUSES = ("0000:b0:00.0", "0000:0a:00.0", "0001:05:00.0")


def amd(
    weights: str, kinds: str, *, titles: tuple[str, str] = ("WEIGHT", "LINK TYPE"), **options: Any
) -> Imported:
    given = {"gpu": "mi300x", **options}
    text = f"{titles[0]} TABLE:\n{weights}\n{titles[1]} TABLE:\n{kinds}\n"
    return amd_tables.read_amd_smi(SourceFile(text, "amd.txt"), ImportOptions(**given))


def cells(rows: list[list[str]], names: tuple[str, ...] = BUSES) -> str:
    lines = ["   ".join(["        ", *names])]
    return "\n".join([*lines, *("  ".join([name, *row]) for name, row in zip(names, rows, strict=True))])


WEIGHTS = cells([["0", "15", "15"], ["15", "0", "15"], ["15", "15", "0"]])
KINDS = cells([["SELF", "XGMI", "XGMI"], ["XGMI", "SELF", "XGMI"], ["XGMI", "XGMI", "SELF"]])


def test_amds_gpus_are_in_the_order_of_their_buses() -> None:
    found = amd(WEIGHTS, KINDS)
    assert found.format == "amd-smi"
    assert found.recognised["rank order"] == (
        "by bus id: gpu0 = 0000:0a:00.0, gpu1 = 0000:b0:00.0, gpu2 = 0001:05:00.0"
    )
    assert set(found.topology.bandwidths.tolist()) == {64 * GB}
    assert found.topology.n_links == 6
    # a way of two links, and one over PCIe, are none
    far = cells([["0", "30", "15"], ["30", "0", "15"], ["15", "15", "0"]])
    ends = amd(far, KINDS).topology
    assert [ends.link_name(e) for e in range(0, 4, 2)] == ["box0.gpu0->box0.gpu2", "box0.gpu1->box0.gpu2"]
    slow = cells([["SELF", "PCIE", "XGMI"], ["PCIE", "SELF", "XGMI"], ["XGMI", "XGMI", "SELF"]])
    mixed = amd(WEIGHTS, slow)
    assert mixed.topology == ends


@pytest.mark.parametrize(
    ("weights", "kinds", "message"),
    [
        (
            WEIGHTS.replace("0  15  15", "x  15  15", 1),
            KINDS,
            ":3: weight 'x' of 0000:b0:00.0 and 0000:b0:00.0: expected a number",
        ),
        (
            WEIGHTS,
            KINDS.replace("XGMI", "QPI", 1),
            ":3: link 'QPI' of 0000:b0:00.0 and 0000:0a:00.0: expected XGMI or PCIE",
        ),
        (
            WEIGHTS.replace("15", "30"),
            KINDS,
            ": shows no GPUs that xGMI joins, and does not say how fast PCIe is",
        ),
        (WEIGHTS.replace(BUSES[0], BUSES[1], 1), KINDS, ":2: expected at most 256 different GPUs as columns"),
        (
            WEIGHTS.replace("0  15  15", "0  15", 1),
            KINDS,
            ":3: row 0000:b0:00.0: expected a cell for each of 3 GPUs",
        ),
        (WEIGHTS + "\n0000:0a:00.0  15  0  15", KINDS, ":6: 0000:0a:00.0 has a second row"),
        (WEIGHTS.rpartition("\n")[0], KINDS, ": the table 'WEIGHT' has no row of 0001:05:00.0"),
        ("", KINDS, ": has no table 'WEIGHT'; show all of them (rocm-smi --showtopo, amd-smi topology)"),
        (WEIGHTS, "", ": has no table 'LINK TYPE'; show all of them (rocm-smi --showtopo, amd-smi topology)"),
        (WEIGHTS + "\nWEIGHT TABLE:\n", KINDS, ":6: the table 'WEIGHT' is there twice"),
    ],
)
def test_tables_that_are_refused(weights: str, kinds: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        amd(weights, kinds)
    assert str(refused.value) == f"amd.txt{message}"


@pytest.mark.parametrize("model", ["mi250", "mi250x", "mi50", "mi60", "pcie"])
def test_models_whose_tables_do_not_tell(model: str) -> None:
    with pytest.raises(FormatError) as refused:
        amd(WEIGHTS, KINDS, gpu=model)
    assert str(refused.value) == (
        f"amd.txt: does not say how many links join two GPUs, which --gpu {model} needs; read RCCL's own "
        f"dump (NCCL_TOPO_DUMP_FILE)"
    )
    with pytest.raises(FormatError, match="says which GPUs xGMI joins, and not how fast; name their model"):
        amd(WEIGHTS, KINDS, gpu=None)


def test_rocms_gpus_are_in_the_order_of_the_file() -> None:
    names = ("GPU1", "GPU0", "GPU2")
    weights = cells([["0", "15", "30"], ["15", "0", "15"], ["30", "15", "0"]], names)
    kinds = cells([["0", "XGMI", "XGMI"], ["XGMI", "0", "XGMI"], ["XGMI", "XGMI", "0"]], names)
    text = f"====== Weight between two GPUs =====\n{weights}\n=== Link Type between two GPUs ===\n{kinds}\n"
    found = amd_tables.read_rocm_smi(SourceFile(text, "r.txt"), ImportOptions(gpu="mi300x"))
    assert found.format == "rocm-smi"
    assert found.recognised["rank order"] == "as in the file: gpu0 = GPU1, gpu1 = GPU0, gpu2 = GPU2"
    assert [found.topology.link_name(e) for e in (0, 2)] == ["box0.gpu0->box0.gpu1", "box0.gpu1->box0.gpu2"]
