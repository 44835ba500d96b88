"""Logs as nccl-tests and NCCL write them, made here from a few figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.schedules.collective import CollectiveKind, busbw_factor

PROGRAMS = {
    CollectiveKind.ALLREDUCE: ("all_reduce_perf", "sum", -1),
    CollectiveKind.ALLGATHER: ("all_gather_perf", "none", -1),
    CollectiveKind.REDUCE_SCATTER: ("reduce_scatter_perf", "sum", -1),
    CollectiveKind.ALLTOALL: ("alltoall_perf", "none", -1),
    CollectiveKind.BROADCAST: ("broadcast_perf", "none", 0),
    CollectiveKind.REDUCE: ("reduce_perf", "sum", 0),
}


def ranks(hosts: int, per_host: int, model: str = "NVIDIA A100-SXM4-80GB") -> list[str]:
    """The list of devices that nccl-tests prints."""
    lines = ["# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor)", "#", "# Using devices"]
    for rank in range(hosts * per_host):
        host, device = divmod(rank, per_host)
        lines.append(
            f"#  Rank {rank:2} Group  0 Pid {4000 + rank:6} on {f'node{host}':>10} device {device:2} "
            f"[0000:{0x10 + device:02x}:00] {model}"
        )
    return lines


HEADING = [
    "#",
    f"#{'out-of-place':>74}{'in-place':>31}",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw"
    "   busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)"
    "  (GB/s)",
]


def rows(kind: CollectiveKind, n: int, figures: Iterable[tuple[int, float]], wrong: int = 0) -> list[str]:
    """Rows of sizes in bytes and busbw in GB/s; in place is 1% slower."""
    _, operation, root = PROGRAMS[kind]
    factor = float(busbw_factor(kind, n))
    lines = []
    for size, busbw in figures:
        sides = ""
        for value in (busbw, busbw * 0.99):
            algbw = value / factor
            sides += f"  {size / algbw / 1e3:7.1f}  {algbw:6.2f}  {value:6.2f}  {wrong:5}"
        lines.append(f"{size:12}  {size // 4:12}     float  {operation:>6}  {root:6}{sides}")
    return lines


def table(
    kind: CollectiveKind, n: int, figures: Sequence[tuple[int, float]], *, wrong: int = 0, named: bool = True
) -> list[str]:
    """A whole table with what stands around it."""
    program = PROGRAMS[kind][0]
    start = [f"# Collective test starting: {program}"] if named else []
    mean = sum(busbw for _, busbw in figures) / max(1, len(figures))
    return [
        *start,
        *HEADING,
        *rows(kind, n, figures, wrong),
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {mean:g}",
        "#",
    ]


def info(text: str, *, host: int = 0, device: int = 0) -> str:
    """A line of NCCL's."""
    return f"node{host}:{4000 + host * 8 + device}:{5000 + host * 8 + device} [{device}] NCCL INFO {text}"


def curve(peak: float, last: int = 2**30) -> list[tuple[int, float]]:
    """A healthy curve: it rises and levels off at the peak."""
    return [(last >> shift, round(peak * (1 - shift * 0.04), 2)) for shift in range(12, -1, -1)]


def system_tree(
    *,
    host: int = 0,
    device: int = 0,
    gpus: int = 8,
    nvlink: str = "NVL[240.0] - NVS/0",
    pcie: float = 24.0,
    nics: int = 4,
    nic: float = 25.0,
    system: str = "",
) -> list[str]:
    """NCCL's tree of a box: GPUs spread over PCIe switches with one NIC each, half of them below each CPU."""
    most = max(speed for speed in (pcie, nic))
    lines = [f"=== System : maxBw {most:.1f} totalBw 240.0 ==="]
    groups = max(nics, 1)
    for cpu in range(2 if groups > 1 else 1):
        lines.append(f"CPU/{system}{cpu} (1/2/-1)")
        for group in range(groups):
            if group * 2 // groups != cpu and groups > 1:
                continue
            lines.append(f"+ PCI[{pcie:.1f}] - PCI/{system}{0x10 + 0x10 * group:x}000 (1000c03010000000)")
            indent = " " * lines[-1].index("PCI/")
            for gpu in range(group * gpus // groups, (group + 1) * gpus // groups):
                lines.append(
                    f"{indent}+ PCI[{pcie:.1f}] - GPU/{system}{0x11 + gpu:x}000 ({host * gpus + gpu})"
                )
                if nvlink:
                    lines.append(f"{' ' * lines[-1].index('GPU/')}+ {nvlink}")
            if nics:
                lines.append(f"{indent}+ PCI[{pcie:.1f}] - NIC/{system}{0x80 + group:x}000")
                deep = " " * lines[-1].index("NIC/")
                lines.append(f"{deep}+ NET[{nic:.1f}] - NET/{system}{group} (a0{group}/1/{nic:.6f})")
        if groups > 1:
            lines.append(f"+ SYS[10.0] - CPU/{system}{1 - cpu}")
    lines.append("=" * 42)
    return [info(line, host=host, device=device) for line in lines]
