"""What the rules about a box, its curve and the environment say, word for word, at their limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from treadle.diagnosis.catalogue import (
    RESTRICTIONS,
    falls,
    find_causes,
    graph_fell_back,
    no_p2p,
    restricting,
    slow_links,
    still_rising,
    wrong_results,
)
from treadle.diagnosis.cause import Case, Cause
from treadle.diagnosis.log import (
    ChannelCount,
    Log,
    LoggedPattern,
    ResultTable,
    SetVariable,
    SystemTree,
    TableRow,
    UsedTransport,
)
from treadle.diagnosis.log_lines import LogLine


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}")


def log(**facts: object) -> Log:
    return Log("nccl.log", 99, **facts)  # type: ignore[arg-type]


def variable(number: int, name: str, value: str) -> SetVariable:
    return SetVariable(line(number), name, value)


LOOK = (
    "look for a missing link: nvidia-smi nvlink -s, fabric manager, IMEX; NCCL_TOPO_DUMP_FILE shows what "
    "NCCL sees"
)


def fell_back(
    channels: int = 2, nvls: int = 0, *, found: dict[str, object] | None = None, **facts: object
) -> list[Cause]:
    counts = (ChannelCount(line(2), 24, -1), ChannelCount(line(1), channels, nvls))
    case = {"has_fast_links": True, **facts}
    return graph_fell_back(Case(log=log(channels=counts, **(found or {})), **case), ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("channels", "nvls", "words"),
    [(2, 0, "2 coll channels, 0 nvls"), (1, -1, "1 coll channels, 0 nvls")],
)
def test_a_graph_search_that_fell_back(channels: int, nvls: int, words: str) -> None:
    patterns = (
        LoggedPattern(line(5), 2, "NVL", "PIX"),
        LoggedPattern(line(6), 1, "NVL", "PIX"),
        LoggedPattern(line(7), 0, "NVL", "PIX"),
    )
    text = f"NCCL's graph search fell back ({words}): it sees too few links between the GPUs"
    remarks = {"no-path": line(8)}
    assert fell_back(channels, nvls) == [Cause("graph-search", text, (line(1),), LOOK)]
    assert fell_back(channels, nvls, found={"patterns": patterns, "remarks": remarks}) == [
        Cause("graph-search", text, (line(1), line(8), line(6)), LOOK)
    ]


def test_a_graph_search_without_a_path() -> None:
    text = "NCCL's graph search fell back (no path): it sees too few links between the GPUs"
    patterns = (LoggedPattern(line(6), 1, "NVL", "PIX"),)
    expected = [Cause("graph-search", text, (line(8),), LOOK)]
    found: dict[str, object] = {"remarks": {"no-path": line(8)}, "patterns": patterns}
    assert fell_back(3, found=found, has_fast_links=False) == expected
    assert graph_fell_back(Case(log=log(**found)), ()) == expected


@pytest.mark.parametrize(
    "facts",
    [
        {"channels": 3},
        {"nvls": 1},
        {"has_fast_links": False},
        {"gpus_per_host": 1},
        {"n_hosts": 2, "used_nics": 1},
        {"n_hosts": 2, "used_nics": 2},
        *(
            {"found": {"settings": (variable(9, name, "4"),), "remarks": {"no-path": line(8)}}}
            for name in ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_GRAPH_FILE")
        ),
    ],
)
def test_few_channels_that_are_as_they_should_be(facts: dict[str, object]) -> None:
    assert fell_back(**facts) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "facts",
    [
        {"gpus_per_host": 2},
        {"n_hosts": 1, "used_nics": 2},
        {"n_hosts": 2, "used_nics": 3},
        {"n_hosts": 2, "used_nics": 0},
    ],
)
def test_few_channels_in_boxes_that_should_have_more(facts: dict[str, object]) -> None:
    assert [one.lines for one in fell_back(**facts)] == [(line(1),)]  # type: ignore[arg-type]


def test_no_channels_at_all_prove_nothing() -> None:
    assert graph_fell_back(Case(log=log(), has_fast_links=True), ()) == []


SHM = (UsedTransport(line(3), "P2P", False, 1), UsedTransport(line(4), "SHM/direct", False, 6))
SEE = "see nvidia-smi topo -p2p r, ACS and IOMMU; in containers share /dev/shm and all GPUs"


@pytest.mark.parametrize("name", ["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"])
def test_gpus_that_meet_in_the_cpus_memory(name: str) -> None:
    text = "GPUs of a box exchange data through the CPU's memory{}, not peer to peer"
    case = Case(log=log(transports=SHM), has_fast_links=True)
    counted = text.format(" (6 connections by SHM)")
    assert no_p2p(case, ()) == [Cause("no-p2p", counted, (line(4),), SEE)]
    assert no_p2p(Case(log=log(transports=SHM)), ()) == []
    half = f"{counted}: half of the PCIe bandwidth remains"
    geforce = "GeForce cards have no peer-to-peer; with others see nvidia-smi topo -p2p r, ACS and IOMMU"
    staged = log(transports=tuple(one for one in SHM if one.kind.startswith("SHM")))
    assert no_p2p(Case(log=staged, n_hosts=1), ()) == [Cause("no-p2p", half, (line(4),), geforce)]
    assert no_p2p(Case(log=log(transports=SHM), n_hosts=1), ()) == []
    assert no_p2p(Case(log=log(transports=SHM[:1]), has_fast_links=True), ()) == []
    settings = (variable(9, name, "1"),)
    case = Case(log=log(transports=SHM, settings=settings))
    assert no_p2p(case, ()) == [Cause("no-p2p", half, (line(4), line(9)), f"unset {name}")]
    assert no_p2p(Case(log=log(settings=settings), has_fast_links=True), ()) == []
    both = (variable(8, "NCCL_P2P_LEVEL", "LOC"), variable(9, "NCCL_P2P_DISABLE", "1"))
    (found,) = no_p2p(Case(log=log(transports=SHM, settings=both)), ())
    assert found.fix == "unset NCCL_P2P_DISABLE"
    remarks = {"p2p-disabled": line(2)}
    assert no_p2p(Case(log=log(remarks=remarks), has_fast_links=True), ()) == [
        Cause("no-p2p", text.format(""), (line(2),), SEE)
    ]
    assert no_p2p(Case(log=log(remarks=remarks, transports=SHM, settings=settings)), ()) == [
        Cause("no-p2p", half, (line(2), line(4), line(9)), f"unset {name}")
    ]


def tree(host: str, first: int, *texts: str) -> SystemTree:
    return SystemTree(host, tuple((line(first + at), text) for at, text in enumerate(texts)), True)


def test_a_gpu_whose_pcie_is_slower_than_most() -> None:
    trees = (
        tree("a", 10, "CPU/0 (1/2/-1)", "+ PCI[6.0] - GPU/10 (0)", "+ PCI[12.5] - DEV/11 (1)"),
        tree("b", 20, "+ PCI[12.5] - GPU/20 (2)", "+ PCI[24.0] - GPU/21 (3)", "+ PCI[12.5] - GPU/22 (4)"),
    )
    text = "GPU/10 of a has PCIe of 6 GB/s where 3 of 5 have 12.5"
    remedy = "see lspci -vv for LnkSta (downgraded): reseat the card, check slot and BIOS"
    assert slow_links(Case(log=log(trees=trees)), ()) == [
        Cause("slow-link", text, (line(11), line(12)), remedy)
    ]


def test_links_of_which_no_half_is_alike_have_no_usual_speed() -> None:
    half = tree("a", 10, *(f"+ PCI[{speed}] - GPU/{speed}" for speed in (12, 12, 6, 5)))
    assert slow_links(Case(log=log(trees=(half,))), ()) == []
    faster = tree("a", 10, *(f"+ PCI[{speed}] - GPU/{speed}" for speed in (12, 12, 24)))
    assert slow_links(Case(log=log(trees=(faster,))), ()) == []
    # of equals the faster is the usual one, and so not that of more than half
    assert slow_links(Case(log=log(trees=(tree("a", 1, "+ PCI[6] - GPU/1", "+ PCI[7] - GPU/2"),))), ()) == []


def test_nvlinks_are_added_up_gpu_by_gpu() -> None:
    texts = []
    for gpu, speeds in enumerate(((20, 20, 40), (40, 40), (80,), (20, 20), (60,))):
        texts.append(f"+ PCI[12.0] - GPU/{gpu} ({gpu})")
        texts += [f"              + NVL[{speed}.0] - GPU/9" for speed in speeds]
    texts.append("+ NVL[1.0] - GPU/9")  # not below a GPU: of a switch
    trees = (tree("a", 10, "              + NVL[1.0] - GPU/9", *texts),)  # the first stands below none either
    text = "GPU/3 of a has NVLinks of 40 GB/s where 3 of 5 have 80, as 1 more"
    remedy = "see nvidia-smi nvlink -s for links that are down"
    lines = (line(21), line(24), line(12))
    assert slow_links(Case(log=log(trees=trees)), ()) == [Cause("slow-link", text, lines, remedy)]
    other = (tree("a", 10, *(text.replace("NVL", "XGMI") for text in texts)),)
    assert [one.text for one in slow_links(Case(log=log(trees=other)), ())] == [text]


def test_ports_slower_than_most_show_three_of_them_and_a_usual_one() -> None:
    speeds = (25, 12, 25, 12.5, 25, 3, 25, 6, 25)
    trees = (tree("a", 10, *(f"+ NET[{speed}] - NET/{at} (1)" for at, speed in enumerate(speeds))),)
    text = "NET/1 of a has a port of 12 GB/s where 5 of 9 have 25, as 3 more"
    remedy = "see ibstat for the port's rate: cable, switch port"
    lines = (line(11), line(13), line(15), line(10))
    assert slow_links(Case(log=log(trees=trees)), ()) == [Cause("slow-link", text, lines, remedy)]
    passed_over = (
        tree("a", 10, "+ NET[1] - GPU/0", "+ PCI[1] - NET/0", "+ NET[25] - NET/1", "+ NET[25] - NET/2"),
    )
    assert slow_links(Case(log=log(trees=passed_over)), ()) == []


def row(number: int, size: int, busbw: float, wrong: int = 0) -> TableRow:
    return TableRow(line(number), size, busbw / 2, busbw, 1.0, wrong)


def test_wrong_results_of_each_table() -> None:
    bad = ResultTable(tuple(row(at, 2**at, 1.0, wrong=at % 4) for at in range(1, 6)), out_of_bounds=line(9))
    some = ResultTable((row(20, 8, 1.0),), out_of_bounds=line(21))
    one = ResultTable((row(30, 8, 1.0, wrong=1), row(31, 16, 1.0)))
    remedy = "test GPUs and links one by one (dcgmi diag -r 3), NCCL_P2P_DISABLE=1, without plug-ins"

    def said(words: str, *lines: int) -> Cause:
        text = f"results are wrong at {words}: no speed counts before that is mended"
        return Cause("wrong-results", text, tuple(map(line, lines)), remedy)

    first, second, third = said("4 of 5 sizes", 1, 2, 9), said("some sizes", 21), said("1 of 2 sizes", 30)
    right = ResultTable((row(40, 8, 1.0),))
    assert wrong_results(Case(log=log(tables=(right, bad, some, one))), ()) == [first, second]
    assert wrong_results(Case(log=log(tables=(one,))), ()) == [third]
    assert wrong_results(Case(log=log(tables=(right,))), ()) == []


def judged(rule: Callable[[Case, tuple[Cause, ...]], list[Cause]], *rows: TableRow) -> list[Cause]:
    return rule(Case(log=log(), table=ResultTable(rows)), ())


def test_a_curve_that_falls() -> None:
    rows = (row(1, 1024, 4.0), row(2, 2048, 10.0), row(3, 4096, 7.0), row(4, 8192, 6.9), row(5, 16384, 6.5))
    text = "busbw falls with the size: 10 GB/s at 2KB, 6.5 at 16KB: congestion in the network"
    remedy = (
        "see the switches' counters: PFC and ECN of RoCE, adaptive routing, other traffic; NCCL_IB_TC, _SL"
    )
    lines = (line(2), line(4), line(5))
    assert judged(falls, *rows) == [Cause("falls-with-size", text, lines, remedy)]
    (found,) = judged(falls, *rows[::-1])
    assert found.lines == (line(2), line(5))
    assert judged(falls, *rows[:3]) == []
    (found,) = judged(falls, *rows[:2], rows[3])
    assert found.lines == (line(2), line(4))
    # as large as the peak's: the same size measured again
    assert judged(falls, row(1, 2048, 10.0), row(2, 2048, 1.0)) == []
    assert judged(falls, row(1, 1024, 1.0), row(2, 2048, 10.0)) == []
    assert falls(Case(log=log()), ()) == []


def test_a_curve_that_falls_within_a_box_is_no_networks() -> None:
    table = ResultTable((row(1, 1024, 10.0), row(2, 2048, 5.0)))
    text = "busbw falls with the size: 10 GB/s at 1KB, 5 at 2KB: within a box, where no network takes part"
    (found,) = falls(Case(log=log(), table=table, n_hosts=1), ())
    assert (found.name, found.text, found.lines) == ("falls-with-size", text, (line(1), line(2)))
    assert "NVLinks" in found.fix
    assert "RoCE" not in found.fix
    (found,) = falls(Case(log=log(), table=table, n_hosts=2), ())
    assert found.text.endswith("congestion in the network")


def test_a_curve_that_still_rises() -> None:
    text = "busbw still rises at 8KB, the largest size: the peak was not reached"
    expected = [Cause("small-sizes", text, (line(2), line(3)), "measure larger sizes: -e 8G")]
    rows = row(1, 1024, 1.0), row(2, 4096, 100.0), row(3, 8192, 115.0)
    assert judged(still_rising, *rows) == expected
    assert judged(still_rising, rows[2], rows[0], rows[1]) == expected
    assert judged(still_rising, *rows[1:]) == expected
    assert judged(still_rising, rows[2]) == []
    assert judged(still_rising, row(2, 4096, 100.0), row(3, 8193, 115.0)) == []
    # larger at equal sizes: the same measured twice
    assert judged(still_rising, row(2, 8192, 100.0), row(3, 8192, 200.0)) == []
    assert judged(still_rising, *rows[1:], row(4, 8192, 90.0)) == expected
    assert judged(still_rising, row(2, 4096, 100.0), row(3, 8192, 114.0)) == []
    assert judged(still_rising, row(1, 1024, 116.0), *rows[1:]) == []
    assert still_rising(Case(log=log()), ()) == []


@pytest.mark.parametrize(("factor", "least"), [(2, 115.0), (4, 132.25), (8, 152.0875), (3, 124.7955)])
def test_a_rise_is_judged_by_the_doubling(factor: int, least: float) -> None:
    """Of nccl-tests' steps -f: 1.15 for each doubling that lies between the last two sizes."""
    before = row(1, 2**20, 100.0)
    (found,) = judged(still_rising, before, row(2, factor * 2**20, least * 1.0001))
    assert (found.name, found.lines) == ("small-sizes", (line(1), line(2)))
    assert judged(still_rising, before, row(2, factor * 2**20, least * 0.9999)) == []


def test_a_rise_between_close_sizes_is_seen_over_a_doubling() -> None:
    """nccl-tests' steps -i: sizes grow by as much each time, and by less and less of themselves."""
    rows = [row(at, at * 2**20, 10.0 * at) for at in range(1, 9)]
    (found,) = judged(still_rising, *rows)
    assert found.lines == (line(4), line(8))
    flat = [row(at, (100 + at) * 2**20, 50 + at / 10) for at in range(8)]
    assert judged(still_rising, *flat) == []


HELD_BACK = {
    "NCCL_P2P_DISABLE": (["1", "true", "Yes"], ["0", "2"]),
    "NCCL_P2P_LEVEL": (["loc", "0"], ["1", "NVL"]),
    "NCCL_SHM_DISABLE": (["1"], ["0"]),
    "NCCL_IB_DISABLE": (["1"], ["0"]),
    "NCCL_NET_GDR_LEVEL": (["0", "LOC"], ["1", "SYS"]),
    "NCCL_IB_GDR_LEVEL": (["0", "LOC"], ["1", "SYS"]),
    "NCCL_NET_GDR_READ": (["0", "false", "No"], ["1"]),
    "NCCL_DMABUF_ENABLE": (["0"], ["1"]),
    "NCCL_NET": (["Socket"], ["IB"]),
    "NCCL_PXN_DISABLE": (["1"], ["0"]),
    "NCCL_ALGO": (["Ring"], [""]),
    "NCCL_PROTO": (["LL"], [""]),
    "NCCL_MAX_NCHANNELS": (["15", "0"], ["16", "x", "-1"]),
    "NCCL_MAX_NRINGS": (["15"], ["16"]),
    "NCCL_MAX_CTAS": (["15"], ["16"]),
    "NCCL_NTHREADS": (["255"], ["256"]),
    "NCCL_BUFFSIZE": (["1048575"], ["1048576"]),
    "NCCL_NVLS_ENABLE": (["0"], ["1"]),
    "NCCL_MNNVL_ENABLE": (["0"], ["1"]),
    "NCCL_GRAPH_FILE": (["/a.xml"], [""]),
    "NCCL_NCHANNELS_PER_NET_PEER": (["1"], ["2", "0"]),
}
BETWEEN_BOXES = {
    "NCCL_IB_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE",
    "NCCL_NET", "NCCL_PXN_DISABLE", "NCCL_MNNVL_ENABLE", "NCCL_NCHANNELS_PER_NET_PEER",
}  # fmt: skip


def held(name: str, value: str, **facts: object) -> list[Cause]:
    settings = (variable(1, "NCCL_DEBUG", "1"), variable(2, name, value))
    return restricting(Case(log=log(settings=settings), **facts), ())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", HELD_BACK)
def test_variables_that_hold_nccl_back(name: str) -> None:
    (text,) = [one.text for one in RESTRICTIONS if one.name == name]
    low, others = HELD_BACK[name]
    for value in low:
        expected = Cause(
            "environment",
            f"{name}={value}: {text}",
            (line(2),),
            f"unset {name}, unless it is there for a reason",
        )
        assert held(name, value) == held(name, value, n_hosts=2) == [expected]
        assert held(name, value, n_hosts=1) == ([] if name in BETWEEN_BOXES else [expected])
    for value in others:
        assert held(name, value, n_hosts=2) == []


def test_each_variable_has_a_case_here() -> None:
    assert [one.name for one in RESTRICTIONS] == list(HELD_BACK)


def test_a_variable_is_named_once_and_not_where_another_suspect_names_it() -> None:
    twice = (
        variable(1, "NCCL_ALGO", ""),
        variable(2, "NCCL_ALGO", "r" * 41),
        variable(3, "NCCL_ALGO", "Tree"),
    )
    case = Case(log=log(settings=(*twice, variable(4, "NCCL_PROTO", "LL"))))
    (algo, proto) = restricting(case, ())
    assert algo.text == f"NCCL_ALGO={'r' * 40}: the choice of algorithms is narrowed"
    assert (algo.lines, proto.lines) == ((line(2),), (line(4),))
    named = Cause("other", "", (line(2),), "unset NCCL_ALGO")
    assert [one.lines for one in restricting(case, (named,))] == [(line(3),), (line(4),)]
    silent = Cause("other", "", (line(2),), "look elsewhere")
    assert restricting(case, (silent,)) == [algo, proto]
    elsewhere = Cause("other", "", (line(9),), "unset NCCL_ALGO")
    assert restricting(case, (elsewhere,)) == [algo, proto]


def test_at_most_eight_variables_are_told() -> None:
    names = [name for name in HELD_BACK if name not in BETWEEN_BOXES][:9]
    settings = tuple(variable(at, name, HELD_BACK[name][0][0]) for at, name in enumerate(names))
    assert [one.lines[0].number for one in restricting(Case(log=log(settings=settings)), ())] == list(
        range(8)
    )


def test_suspects_come_in_the_catalogues_order_and_most_of_a_low_figure_only() -> None:
    found = log(
        tables=(ResultTable((row(30, 8, 1.0, wrong=1),)),),
        remarks={"acs": line(1), "port": line(2), "p2p-disabled": line(3), "no-path": line(4)},
        transports=(
            UsedTransport(line(5), "NET/Socket", False, 1),
            UsedTransport(line(6), "NET/IB", False, 1),
        ),
        settings=(variable(7, "NCCL_ALGO", "Ring"),),
    )
    assert [one.name for one in find_causes(Case(log=found))] == [
        *("wrong-results", "tcp", "no-gdr", "graph-search", "no-p2p", "port", "environment", "acs")
    ]
    assert [one.name for one in find_causes(Case(log=found, is_low=False))] == ["wrong-results", "tcp"]


def test_a_suspect_needs_a_line() -> None:
    with pytest.raises(ValueError, match="cause x: expected a line of the log that proves it"):
        Cause("x", "", (), "")
