"""What is known of GPUs, their links and PCIe; boxes as values, and what of them is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from treadle.errors import FormatError, TopologyError
from treadle.topologies.readers.boxes.box import (
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    GpuLink,
    HostLink,
    HostSpeed,
    Nic,
    Slot,
    bus_number,
    joined_parts,
    rank_order,
)
from treadle.topologies.readers.boxes.gpu_models import (
    DEFAULT_GT_PER_S,
    DEFAULT_LANES,
    GPU_MODELS,
    LinkKind,
    model_of_device,
    nvlink_of,
    pcie_bandwidth,
    xgmi_of,
)
from treadle.topologies.readers.boxes.wiring import (
    Wired,
    asks_model,
    check_model,
    model_by_device,
    typed_model,
    wire,
)
from treadle.topologies.readers.imported import (
    Finding,
    ImportOptions,
    LinkSpeeds,
    PcieDetail,
    SourceFile,
)

SOURCE = SourceFile("", "box.xml")
NOMINAL, LIBRARY = LinkSpeeds.NOMINAL, LinkSpeeds.LIBRARY

# word, nominal and the library's Mbyte/s of a link, links, GT/s of a lane, wiring by size, generation
MODELS = {
    "p100": ("NVLink", 20_000, 18_000, 4, 8, {}, 60),
    "v100": ("NVLink", 25_000, 20_000, 6, 8, {16: "switch"}, 70),
    "a100": ("NVLink", 25_000, 20_000, 12, 16, {8: "switch", 16: "switch"}, 80),
    "a800": ("NVLink", 25_000, 20_000, 8, 16, {8: "switch"}, 80),
    "h100": ("NVLink", 25_000, 20_600, 18, 32, {8: "switch"}, 90),
    "h200": ("NVLink", 25_000, 20_600, 18, 32, {8: "switch"}, 90),
    "h20": ("NVLink", 25_000, 20_600, 18, 32, {8: "switch"}, 90),
    "h800": ("NVLink", 25_000, 20_600, 8, 32, {8: "switch"}, 90),
    "b200": ("NVLink", 50_000, 40_100, 18, 32, {8: "switch"}, 100),
    "b300": ("NVLink", 50_000, 40_100, 18, 64, {8: "switch"}, 103),
    "gb200": ("NVLink", 50_000, 40_100, 18, 32, {}, 100),
    "gb10": ("", 0, 0, 0, 32, {}, 121),
    "h100-nvl": ("NVLink", 25_000, 20_600, 12, 32, {}, 90),
    "h200-nvl": ("NVLink", 25_000, 20_600, 18, 32, {}, 90),
    "3090": ("NVLink", 14_062.5, 12_000, 4, 16, {}, 86),
    "4090": ("", 0, 0, 0, 16, {}, 89),
    "5090": ("", 0, 0, 0, 32, {}, 120),
    "a10": ("", 0, 0, 0, 16, {}, 86),
    "a40": ("NVLink", 14_062.5, 12_000, 4, 16, {}, 86),
    "a6000": ("NVLink", 14_062.5, 12_000, 4, 16, {}, 86),
    "l4": ("", 0, 0, 0, 16, {}, 89),
    "l40s": ("", 0, 0, 0, 16, {}, 89),
    "rtx6000": ("", 0, 0, 0, 16, {}, 89),
    "rtx-pro-6000": ("", 0, 0, 0, 32, {}, 120),
    "mi50": ("xGMI", 46_000, 24_000, 2, 16, {}, 0),
    "mi60": ("xGMI", 46_000, 24_000, 2, 16, {}, 0),
    "mi100": ("xGMI", 46_000, 24_000, 3, 16, {2: "pairs", 4: "pairs"}, 0),
    "mi250": ("xGMI", 50_000, 36_000, 8, 16, {}, 0),
    "mi250x": ("xGMI", 50_000, 36_000, 8, 16, {}, 0),
    "mi300x": ("xGMI", 64_000, 48_000, 7, 32, {2: "pairs", 4: "pairs", 8: "pairs"}, 0),
    "mi325x": ("xGMI", 64_000, 48_000, 7, 32, {2: "pairs", 4: "pairs", 8: "pairs"}, 0),
    "pcie": ("", 0, 0, 0, 0, {}, 0),
}
CARDS = tuple(MODELS)[11:24]


def test_figures_of_all_models() -> None:
    assert list(GPU_MODELS) == list(MODELS)
    for name, (word, nominal, library, links, speed, boxes, generation) in MODELS.items():
        model = GPU_MODELS[name]
        if model.kind is None:
            assert word == ""
        else:
            assert model.kind == LinkKind(word=word, nominal=nominal * 10**6, library=library * 10**6)
            assert model.kind.speed(NOMINAL) == nominal * 10**6
            assert model.kind.speed(LIBRARY) == library * 10**6
        assert (model.links, model.gt_per_s, dict(model.boxes), model.sm) == (links, speed, boxes, generation)
        assert model.is_card == (name in CARDS)
        assert model.has_p2p == (name not in ("3090", "4090", "5090"))
    assert DEFAULT_GT_PER_S == 8
    assert DEFAULT_LANES == 16


def test_models_by_pci_identifiers() -> None:
    """The PCI ID database's numbers; all others are unknown."""
    known = {
        "v100": (0x1DB1, 0x1DB5, 0x1DB8),
        "a100": (0x20B0, 0x20B2),
        "h100": (0x2330,),
        "h200": (0x2335,),
        "b200": (0x2901,),
        "gb200": (0x2941,),
        "h100-nvl": (0x2321,),
        "h200-nvl": (0x233B,),
        "3090": (0x2204,),
        "4090": (0x2684,),
        "5090": (0x2B85,),
        "pcie": (0x1EB8,),
        "a10": (0x2236, 0x2237),
        "a40": (0x2235,),
        "a6000": (0x2230,),
        "l4": (0x27B8,),
        "l40s": (0x26B9,),
        "rtx6000": (0x26B1,),
        "rtx-pro-6000": (0x2BB1, 0x2BB4, 0x2BB5),
    }
    amd = {"mi100": (0x738C,), "mi250x": (0x740C, 0x7408), "mi300x": (0x74A1,), "mi325x": (0x74A5,)}
    numbers = 0
    for vendor, names in ((0x10DE, known), (0x1002, amd)):
        for device in range(0x1000, 0x8000):
            expected = [name for name, devices in names.items() if device in devices]
            assert model_of_device(vendor, device) == "".join(expected)
            numbers += len(expected)
    assert numbers == 30
    assert model_of_device(0x8086, 0x2330) == ""


@pytest.mark.parametrize(
    ("generation", "nominal"),
    [
        *((59, None), (60, "20"), (69, "20"), (70, "25"), (75, "25"), (79, "25"), (80, "25"), (85, "25")),
        *((86, "14.0625"), (87, "14.0625"), (88, "25"), (89, "25"), (90, "25"), (99, "25"), (100, "50")),
        (120, "50"),
    ],
)
def test_nvlinks_by_compute_capability(generation: int, nominal: str | None) -> None:
    kind = nvlink_of(generation)
    assert (None if kind is None else kind.nominal) == (
        None if nominal is None else Fraction(nominal) * 10**9
    )
    libraries = {60: "18", 70: "20", 80: "20", 86: "12", 88: "20", 90: "20.6", 99: "20.6", 100: "40.1"}
    if generation in libraries and kind is not None:
        assert kind.library == Fraction(libraries[generation]) * 10**9


def test_xgmi_by_generation() -> None:
    def speed(text: str) -> int:
        kind = xgmi_of(text)
        return 0 if kind is None else kind.nominal // 10**9

    assert [speed(text) for text in ("906", "gfx906", "GFX908", "910", "gfx90a", "gfx942", "94", "940")] == [
        *(46, 46, 46, 50, 50, 64, 64, 64)
    ]
    assert [speed(text) for text in ("907", "gfx", "", "9420", "gfx95")] == [0] * 5


@pytest.mark.parametrize(
    ("speed", "lanes", "links", "expected"),
    [
        ("2.5", 8, NOMINAL, 2_000_000_000),
        ("5", 16, NOMINAL, 8_000_000_000),
        ("8", 16, NOMINAL, 15_753_846_153),
        ("16", 4, NOMINAL, 7_876_923_076),
        ("32", 16, NOMINAL, 63_015_384_615),
        ("64", 16, NOMINAL, 121_000_000_000),
        ("64", 16, LIBRARY, 96_000_000_000),
        ("5", 3, LIBRARY, 1_406_250_000),
    ],
)
def test_pcie_less_its_encoding(speed: str, lanes: int, links: LinkSpeeds, expected: int) -> None:
    assert pcie_bandwidth(Fraction(speed), lanes, links) == expected


def gpus(*names: str, model: str = "", generation: str = "") -> tuple[Gpu, ...]:
    return tuple(Gpu(name=name, model=model, generation=generation) for name in names)


ABC = gpus("A", "B", "C")
TREE = (
    Bridge(kind=BridgeKind.HOST, name="c0"),
    Bridge(kind=BridgeKind.HOST, name="c1"),
    Bridge(kind=BridgeKind.SWITCH, name="s", above=1, bandwidth=1),
)


def link(one: int, other: int | None, count: int = 1, bandwidth: int = 1) -> GpuLink:
    return GpuLink(gpu=one, other=other, count=count, bandwidth=bandwidth)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"gpus": ()}, "box: 0 GPUs and 0 NICs; expected 1 to 1024, and at most 1024"),
        (
            {"gpus": gpus(*map(str, range(1025)))},
            "box: 1025 GPUs and 0 NICs; expected 1 to 1024, and at most 1024",
        ),
        (
            {"nics": tuple(Nic(name=str(k)) for k in range(1025))},
            "box: 3 GPUs and 1025 NICs; expected 1 to 1024, and at most 1024",
        ),
        (
            {"gpus": (Gpu(name="a", bus_id="1:1.0"), Gpu(name="b", bus_id="1:1.0"))},
            "box: bus id 0 1:1.0 is there twice",
        ),
        ({"gpus": (Gpu(name="a", rank=3), Gpu(name="b", rank=3))}, "box: rank 3 is there twice"),
        ({"nics": (Nic(name="n"), Nic(name="n"))}, "box: NIC n is there twice"),
        ({"gpus": gpus("")}, "box: name '', expected one line without control characters"),
        ({"nics": (Nic(name="a\nb"),)}, "box: name 'a\\nb', expected one line without control characters"),
        (
            {"bridges": (Bridge(kind=BridgeKind.HOST, name="h", above=0),)},
            "h: hangs from bridge 0, which is not before it",
        ),
        (
            {"bridges": (Bridge(kind=BridgeKind.HOST, name="h", above=-1),)},
            "h: hangs from bridge -1, which is not before it",
        ),
        (
            {"bridges": (Bridge(kind=BridgeKind.HOST, name="h", bandwidth=0),)},
            "h: bandwidth 0 bytes/s, expected at least 1",
        ),
        ({"gpus": (Gpu(name="a", slot=Slot(above=0)),)}, "a: hangs from bridge 0, which does not exist"),
        (
            {"bridges": TREE, "nics": (Nic(name="n", slot=Slot(above=3)),)},
            "n: hangs from bridge 3, which does not exist",
        ),
        (
            {"bridges": TREE, "nics": (Nic(name="n", slot=Slot(above=-1)),)},
            "n: hangs from bridge -1, which does not exist",
        ),
        ({"gpus": (Gpu(name="a", slot=Slot(bandwidth=0)),)}, "a: bandwidth 0 bytes/s, expected at least 1"),
        ({"nics": (Nic(name="n", bandwidth=0),)}, "n: bandwidth 0 bytes/s, expected at least 1"),
        ({"links": (link(0, 3),)}, "link of GPU 0 to 3: expected two of 3 GPUs, the smaller first"),
        ({"links": (link(1, 1),)}, "link of GPU 1 to 1: expected two of 3 GPUs, the smaller first"),
        ({"links": (link(3, None),)}, "link of GPU 3 to None: expected two of 3 GPUs, the smaller first"),
        ({"links": (link(-1, 1),)}, "link of GPU -1 to 1: expected two of 3 GPUs, the smaller first"),
        ({"links": (link(0, 1, 0),)}, "link of GPU 0 to 1: 0 links, expected 1 to 1024"),
        ({"links": (link(0, 1, 1025),)}, "link of GPU 0 to 1: 1025 links, expected 1 to 1024"),
        ({"links": (link(0, 1, 1, 0),)}, "link of GPU 0 to 1: bandwidth 0 bytes/s, expected at least 1"),
        ({"links": (link(0, 1), link(0, 1))}, "box: link 0 to 1 is there twice"),
        (
            {"bridges": TREE, "host_links": (HostLink(one=0, other=2, bandwidth=1),)},
            "box: bridges 0 and 2 are not two CPUs",
        ),
        (
            {"bridges": TREE, "host_links": (HostLink(one=0, other=0, bandwidth=1),)},
            "box: bridges 0 and 0 are not two CPUs",
        ),
        (
            {"bridges": TREE[:2], "host_links": (HostLink(one=0, other=2, bandwidth=1),)},
            "box: bridges 0 and 2 are not two CPUs",
        ),
        (
            {"bridges": TREE, "host_links": (HostLink(one=0, other=1, bandwidth=0),)},
            "CPUs: bandwidth 0 bytes/s, expected at least 1",
        ),
    ],
)
def test_boxes_that_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        Box(**{"gpus": ABC, **facts})
    assert str(refused.value) == message


def test_a_box_says_what_joins_its_gpus() -> None:
    two_hosts = (Gpu(name="A", bus_id="1:1.0"), Gpu(name="B", bus_id="1:1.0", host=1), Gpu(name="C"))
    box = Box(
        gpus=(*two_hosts, *gpus("D", "E")),
        links=(link(0, 2, 1024), link(3, None)),
        nics=(Nic(name="n", slot=Slot(above=2)),),
        bridges=TREE,
        host_links=(HostLink(one=1, other=0, bandwidth=1),),
    )
    assert (box.has_switch, box.parts()) == (True, ((0, 2), (1,), (3,), (4,)))
    assert box.chain(Slot(above=2)) == [2, 1]
    assert box.chain(Slot(above=0)) == [0]
    assert box.chain(Slot()) == []
    assert (box.n_switches, box.link_word, box.host_links[0].origin) == (0, "NVLink", HostSpeed.FILE)
    joined = Box(gpus=ABC, links=(link(0, None), link(2, None)))
    assert joined.parts() == ((0, 2), (1,))
    assert not Box(gpus=ABC, links=(link(0, 1),)).has_switch
    assert joined_parts(5, [(3, 9), (9, 1), (4, 0)]) == ((0, 4), (1, 3), (2,))


def test_ranks_by_the_file_or_by_bus_id_or_as_they_stand() -> None:
    def order(*found: Gpu) -> tuple[int, ...]:
        return rank_order(found)

    assert order(*(Gpu(name="x", rank=rank) for rank in (5, 0, 3))) == (1, 2, 0)
    buses = ("0001:00:00.0", "0000:4f:00.0", "4e:1f.7", "0000:4e:1f.1")
    by_bus = [Gpu(name="x", bus_id=bus) for bus in buses]
    assert order(*by_bus) == (3, 2, 1, 0)
    assert order(Gpu(name="x", bus_id="9:0.0", host=1), Gpu(name="x", bus_id="a:0.0")) == (1, 0)
    assert order(Gpu(name="x", rank=5), Gpu(name="x", bus_id="1:0.0")) == (0, 1)
    assert order(*by_bus[:2], Gpu(name="x")) == (0, 1, 2)
    assert bus_number("0002:4f:1e.3") == 2 << 20 | 0x4F << 12 | 0x1E << 4 | 3
    assert bus_number("4f:1e") == 0x4F << 12 | 0x1E << 4


def wired(
    found: tuple[Gpu, ...], counts: dict[tuple[int, int | None], int] | None = None, **options: Any
) -> Wired:
    return wire(SOURCE, found, counts or {}, ImportOptions(**options))


def test_boxes_of_a_model_are_wired_alike() -> None:
    eight = tuple(Gpu(name=str(k), model="h100") for k in range(8))
    found = wired(eight)
    assert found.links == tuple(link(k, None, 18, 18 * 25 * 10**9) for k in range(8))
    told = "18 NVLinks from each GPU to NVSwitches, 25 GB/s each: boxes of 8 h100 are so; the file has none"
    assert (found.word, found.defaulted, found.warnings) == ("NVLink", (Finding(told),), ())
    assert wired(eight, links=LIBRARY).links[7] == link(7, None, 18, 18 * 20_600_000_000)
    four = tuple(Gpu(name=str(k), model="mi300x") for k in range(4))
    found = wired(four)
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert found.links == tuple(link(one, other, 1, 64 * 10**9) for one, other in pairs)
    told = "one xGMI link between each two GPUs, 64 GB/s each: boxes of 4 mi300x are so; the file has none"
    assert (found.word, found.defaulted) == ("xGMI", (Finding(told),))
    plain = Finding("GPUs without links of their own: joined over PCIe")
    assert wired(gpus("A", "B", model="pcie")) == Wired(defaulted=(plain,))
    assert wired(gpus("A", model="mi250")) == Wired(word="xGMI")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            gpus("A", model="h100") + gpus("B"),
            "box.xml: has GPUs of several models (unknown ones and h100) and no links; name one by --gpu",
        ),
        (
            gpus("A", "B", "C", model="h100"),
            "box.xml: has 3 GPUs and none of their NVLinks, and boxes of 3 h100 are not all wired alike; "
            "read a file that has them, such as NCCL's own (NCCL_TOPO_DUMP_FILE), or say --gpu pcie",
        ),
        (
            gpus("A", generation="sm 70"),
            "box.xml: has no links of A (sm 70); name their model by --gpu: p100, v100, a100, a800, h100, "
            "h200, h20, h800, b200, b300, gb200, gb10, h100-nvl, h200-nvl, 3090, 4090, 5090, a10, a40, "
            "a6000, l4, l40s, rtx6000, rtx-pro-6000, or pcie for another one without links",
        ),
        (
            gpus("A"),
            "box.xml: has no links of A; name their model by --gpu: p100, v100, a100, a800, h100, h200, h20, "
            "h800, b200, b300, gb200, gb10, h100-nvl, h200-nvl, 3090, 4090, 5090, a10, a40, a6000, l4, l40s, "
            "rtx6000, rtx-pro-6000, mi50, mi60, mi100, mi250, mi250x, mi300x, mi325x, or pcie for another "
            "one without links",
        ),
    ],
)
def test_links_that_nothing_tells_are_asked(found: tuple[Gpu, ...], message: str) -> None:
    with pytest.raises(FormatError) as refused:
        wired(found)
    assert str(refused.value) == message


def test_older_gpus_without_links_have_none() -> None:
    assert wired(gpus("A", generation="sm 69")) == Wired(word="NVLink")
    assert wired(gpus("A", "B", generation="gfx942")) == Wired(word="xGMI")


def test_a_model_that_is_typed() -> None:
    def typed(name: str | None, word: str = "") -> str:
        return typed_model(SOURCE, ImportOptions(gpu=name), word=word)

    assert (typed(None), typed("H100"), typed("mi300x", "xGMI"), typed("pcie", "xGMI")) == (
        *("", "h100", "mi300x", "pcie"),
    )
    with pytest.raises(FormatError) as refused:
        typed("h100", "xGMI")
    assert str(refused.value) == "box.xml: --gpu h100: has NVLink links, the GPUs of such a file have xGMI"
    with pytest.raises(FormatError) as refused:
        typed("abacus" * 10)
    assert str(refused.value) == (
        f"box.xml: --gpu {('abacus' * 10)[:40]!r} is not known; expected one of {', '.join(GPU_MODELS)}"
    )
    with pytest.raises(
        FormatError, match=r"--gpu 'h10' is not known; did you mean .* Expected one of p100, v1"
    ):
        typed("h10")


def test_a_typed_model_against_what_the_file_says() -> None:
    def checked(model: str, generation: int, gcn: str = "") -> None:
        check_model(SOURCE, Gpu(name="G", model=model, generation="the file's"), generation, gcn)

    for model, generation, gcn in (
        *(
            ("", 80, ""),
            ("pcie", 80, ""),
            ("h100", 90, ""),
            ("h100", 0, ""),
            ("b200", 103, ""),
            ("b300", 100, ""),
        ),
        *(("mi300x", 0, "gfx942"), ("mi300x", 0, "unknown")),
    ):
        checked(model, generation, gcn)
    for model, generation, gcn in (
        *(("h100", 80, ""), ("b200", 90, ""), ("h100", 100, ""), ("mi300x", 0, "gfx90a")),
    ):
        with pytest.raises(FormatError) as refused:
            checked(model, generation, gcn)
        assert str(refused.value) == f"box.xml: --gpu {model}: G is of another kind, the file's"
    assert model_by_device(SOURCE, "", "G", 0x10DE, 0x2330) == "h100"
    assert model_by_device(SOURCE, "h200", "G", 0x10DE, 0x2330) == "h200"
    assert model_by_device(SOURCE, "h200", "G", 0x10DE, 0) == "h200"
    assert model_by_device(SOURCE, "pcie", "G", 0x10DE, 0x2330) == "pcie"
    assert model_by_device(SOURCE, "h100", "G", 0x10DE, 0x27B8) == "h100"
    with pytest.raises(FormatError) as refused:
        model_by_device(SOURCE, "a100", "G", 0x10DE, 0x2330)
    assert str(refused.value) == "box.xml: --gpu a100: G is of another kind, h100 by its PCI identifiers"
    assert "h100, h200" in str(asks_model(SOURCE, "why", "NVLink"))
    assert "mi50" not in str(asks_model(SOURCE, "why", "NVLink"))


def test_counted_links_of_a_model() -> None:
    """Speeds by the model; the switch's links first, then pairs."""
    found = wired(gpus("A", "B", model="v100"), {(0, 1): 2, (1, 0): 2, (0, None): 4, (1, None): 3})
    speed = 25 * 10**9
    assert found.links == (link(0, None, 4, 4 * speed), link(1, None, 3, 3 * speed), link(0, 1, 2, 2 * speed))
    assert found.warnings == (Finding("has 5 NVLink links, another GPU has 6", "B"),)
    with pytest.raises(FormatError) as refused:
        wired(gpus("A", "B", model="v100"), {(0, 1): 7, (1, 0): 7})
    assert str(refused.value) == "box.xml: A has 7 NVLink links, v100 have 6; is it of another model (--gpu)?"
    lost: dict[tuple[int, int | None], int] = {(0, 1): 2, (1, 0): 2}
    with pytest.raises(FormatError, match="C has no NVLinks, other GPUs have"):
        wired(gpus("A", "B", "C", model="v100"), lost)
    assert wired(gpus("A", "B", "C", model="v100"), lost, pcie=PcieDetail.FULL).links == (
        link(0, 1, 2, 2 * speed),
    )
