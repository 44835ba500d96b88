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
