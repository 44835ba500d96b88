"""Files about boxes as tools write them, made here: small ones, in which every figure is known."""

from __future__ import annotations


def nccl_xml(
    *,
    gpus: int = 4,
    sm: int = 80,
    nvlinks: int = 12,
    nic_mbit_per_s: int = 200000,
    far_nics: int = 0,
    without: str = "",
) -> str:
    """A dump of NCCL's: two GPUs and two NICs to a PCIe switch, 16 lanes of PCIe 4 each; NVLinks to switches.

    Parameters
    ----------
    gpus : int
        Even.
    sm : int
    nvlinks : int
        Of each GPU, half to each of two NVSwitches.
    nic_mbit_per_s : int
    far_nics : int
        NICs that hang from the first CPU directly.
    without : str
        GPU (``3``) whose NVLinks are left out.
    """
    pcie = 'link_speed="16.0 GT/s PCIe" link_width="16"'
    lines = [
        '<system version="1">',
        '  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">',
    ]
    for number in range(gpus // 2):
        lines.append(f'    <pci busid="0000:{number + 1:02x}:00.0" class="0x060400" {pcie}>')
        for gpu in (2 * number, 2 * number + 1):
            lines += [
                f'      <pci busid="0000:{64 + gpu:02x}:00.0" class="0x030200" {pcie}>',
                f'        <gpu dev="{gpu}" sm="{sm}" rank="{gpu}" gdr="1">',
            ]
            if str(gpu) != without:
                links = f'count="{nvlinks // 2}" tclass="0x068000"'
                lines += [f'          <nvlink target="0000:{end}:00.0" {links}/>' for end in ("e0", "e1")]
            lines += ["        </gpu>", "      </pci>"]
            lines += [
                f'      <pci busid="0000:{128 + gpu:02x}:00.0" class="0x020700" {pcie}>',
                f'        <nic><net name="mlx5_{gpu}" dev="{gpu}" speed="{nic_mbit_per_s}" port="1" '
                f'guid="0x{gpu + 1:x}" gdr="1"/></nic>',
                "      </pci>",
            ]
        lines.append("    </pci>")
    for far in range(far_nics):
        name, dev = f"eth{far}", gpus + far
        lines.append(
            f'    <nic><net name="{name}" dev="{dev}" speed="10000" port="1" guid="0xf{far}" gdr="1"/></nic>'
        )
    return "\n".join([*lines, "  </cpu>", "</system>", ""])


def nvidia_smi_matrix(
    links: list[list[int]], near: list[list[int]], *, legend: bool = True, cpus: list[str] | None = None
) -> str:
    """What ``nvidia-smi topo -m`` prints: `links[i][j]` NVLinks, `near[i]` the NICs PIX to GPU i.

    `cpus` are the GPUs' affinities, those of one CPU unless given; none at all if empty.
    """
    n, m = len(links), max((nic for row in near for nic in row), default=-1) + 2
    names = [f"GPU{i}" for i in range(n)] + [f"NIC{i}" for i in range(m)]
    affinity = ["0-23"] * n if cpus is None else cpus
    titles = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"] if affinity else []
    lines = ["\x1b[4m\t" + "\t".join([*names, *titles]) + "\x1b[0m"]
    for i, row in enumerate(links):
        cells = [" X " if i == j else f"NV{count}" if count else "SYS" for j, count in enumerate(row)]
        cells += ["PIX" if nic in near[i] else "NODE" for nic in range(m)]
        numa = [affinity[i], str(sorted(set(affinity)).index(affinity[i])), "", "N/A"] if affinity else []
        lines.append("\t".join([f"GPU{i}", *cells, *numa]))
    for nic in range(m):
        cells = ["PIX" if nic in near[i] else "NODE" for i in range(n)]
        cells += [" X " if nic == other else "NODE" for other in range(m)]
        lines.append("\t".join([f"NIC{nic}", *cells]))
    lines += [
        "",
        "Legend:",
        "",
        "  X    = Self",
        "  PIX  = Connection traversing at most a single PCIe bridge",
        "",
    ]
    if legend:
        lines += ["NIC Legend:", "", *(f"  NIC{nic}: mlx5_{nic}" for nic in range(m)), ""]
    return "\n".join(lines)


def rocm_smi_tables(weights: list[list[int]], *, title: str = "Weight between two GPUs") -> str:
    """What ``rocm-smi --showtopo`` prints; weights that are multiples of 15 are of xGMI."""
    n = len(weights)
    names = [f"GPU{i}" for i in range(n)]
    kinds = [["XGMI" if weight % 15 == 0 else "PCIE" for weight in row] for row in weights]
    hops = [[0 if i == j else 1 for j in range(n)] for i in range(n)]
    lines = ["=" * 28 + " ROCm System Management Interface " + "=" * 28]
    for heading, table in (
        (title, weights),
        ("Hops between two GPUs", hops),
        ("Link Type between two GPUs", kinds),
    ):
        lines += [f"{'=' * 30} {heading} {'=' * 30}", "       " + "".join(f"{name:<13}" for name in names)]
        for i, row in enumerate(table):
            cells = ["0" if i == j else str(cell) for j, cell in enumerate(row)]
            lines.append(f"{names[i]:<7}" + "".join(f"{cell:<13}" for cell in cells))
        lines.append("")
    lines += [f"GPU[{i}]\t\t: (Topology) Numa Node: {i}" for i in range(n)]
    return "\n".join([*lines, "=" * 34 + " End of ROCm SMI Log " + "=" * 35, ""])


def amd_smi_tables(weights: list[list[int]]) -> str:
    """What ``amd-smi topology`` prints; weights that are multiples of 15 are of xGMI."""
    n = len(weights)
    names = [f"0000:{16 * (n - i):02x}:00.0" for i in range(n)]  # not in the order of bus ids
    kinds = [["XGMI" if weight % 15 == 0 else "PCIE" for weight in row] for row in weights]
    access = [["ENABLED"] * n for _ in range(n)]
    lines = []
    for heading, table, own in (
        ("ACCESS", access, "ENABLED"),
        ("WEIGHT", weights, "0"),
        ("LINK TYPE", kinds, "SELF"),
    ):
        lines += [f"{heading} TABLE:", " " * 13 + " ".join(f"{name:<12}" for name in names)]
        for i, row in enumerate(table):
            cells = [own if i == j else str(cell) for j, cell in enumerate(row)]
            lines.append(f"{names[i]} " + " ".join(f"{cell:<12}" for cell in cells))
        lines.append("")
    return "\n".join([*lines, "Legend:", "  SELF = Current GPU", ""])


def hwloc_xml(
    *, gpus: int = 4, switches: int = 2, links: int = 3, halves: bool = False, nics: bool = True
) -> str:
    """hwloc's XML of V100: `links` NVLinks from each GPU to each NVSwitch, or only to those of its half."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
        '<topology version="2.0">',
        '  <object type="Machine" gp_index="1">',
        '    <object type="Package" gp_index="2">',
        '      <object type="Bridge" gp_index="3" bridge_type="0-1" depth="0">',
    ]
    for gpu in range(gpus):
        speed = 'pci_link_speed="15.753846"'
        lines += [
            f'        <object type="Bridge" gp_index="{100 + gpu}" bridge_type="1-1" '
            f'pci_busid="0000:{gpu + 1:02x}:00.0" pci_type="0604 [10b5:9781] [10b5:9781] b0 00" {speed}>',
            f'          <object type="PCIDev" gp_index="{200 + gpu}" pci_busid="0000:{64 + gpu:02x}:00.0" '
            f'pci_type="0302 [10de:1db5] [10de:131d] a1 00" {speed}>',
            f'            <object type="OSDev" gp_index="{300 + gpu}" name="nvml{gpu}" osdev_type="1"/>',
            "          </object>",
        ]
        if nics:
            lines += [
                f'          <object type="PCIDev" gp_index="{400 + gpu}" '
                f'pci_busid="0000:{128 + gpu:02x}:00.0" '
                f'pci_type="0207 [15b3:1017] [15b3:0006] 00 00" {speed}>',
                f'            <object type="OSDev" gp_index="{500 + gpu}" name="ib{gpu}" osdev_type="2"/>',
                f'            <object type="OSDev" gp_index="{600 + gpu}" name="mlx5_{gpu}" osdev_type="3"/>',
                "          </object>",
            ]
        lines.append("        </object>")
    for switch in range(switches):
        lines.append(
            f'        <object type="PCIDev" gp_index="{700 + switch}" subtype="NVSwitch" '
            f'pci_busid="0000:{224 + switch:02x}:00.0" pci_type="0680 [10de:1ac2] [0000:0000] a1 00"/>'
        )
    lines += ["      </object>", "    </object>", "  </object>"]
    n = gpus + switches
    ends = [f"OSDev:{300 + gpu}" for gpu in range(gpus)] + [
        f"PCIDev:{700 + switch}" for switch in range(switches)
    ]
    rows = [[0] * n for _ in range(n)]
    for gpu in range(gpus):
        for switch in range(switches):
            if not halves or gpu * switches // gpus == switch:
                rows[gpu][gpus + switch] = rows[gpus + switch][gpu] = 25000 * links
    lines.append(f'  <distances2hetero nbobjs="{n}" kind="25" name="NVLinkBandwidth">')
    lines.append(f"    <indexes>{' '.join(ends)} </indexes>")
    lines += [f"    <u64values>{' '.join(map(str, row))} </u64values>" for row in rows]
    return "\n".join([*lines, "  </distances2hetero>", "</topology>", ""])
