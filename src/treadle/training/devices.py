"""Accelerators: peak speeds by precision, memory and its bandwidth, from their makers' data sheets.

Peaks are of dense products (data sheets of NVIDIA often print twice as much, "with sparsity"), of one device
as software sees it: an MI250 is two, and counts here as one of its two dies. Memory is what data sheets call
GB and what devices have in powers of 1024.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta

from treadle.errors import FormatError, TreadleError
from treadle.notebook import displayed, own_fields
from treadle.spelling import known_name, unknown
from treadle.typed_files import Table, read_toml
from treadle.units import parse_bandwidth, parse_size

ELEMENT_BYTES: Mapping[str, int] = MappingProxyType({"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2})
"""Bytes of an element of weights and activations, by the precision of products.

fp8 is that of the operands only: weights that are trained stay, and activations mostly stay, in bf16.
"""
SERVED_WEIGHT_BYTES: Mapping[str, int] = MappingProxyType({"fp8": 1})
"""Bytes of a weight of blocks in checkpoints to serve at a precision, where they are fewer.

Embedding and head stay in 16 bits there, as in the weights published with DeepSeek-V3 (its norms and routers,
.02% of it, do so too and are not told apart).
"""
_MOST_TEXT = 100_000


@displayed(own_fields)
@dataclass(frozen=True)
class Accelerator:
    """A device that ranks run on: one rank each.

    Parameters
    ----------
    name : str
    peak_flops : mapping of str to float
        FLOP/s of dense matrix products by precision: fp32, tf32, bf16, fp16, fp8; those that it has.
    memory_bytes : int
    memory_bytes_per_s : float
        Bandwidth of its memory.
    source : str
    """

    name: str
    peak_flops: Mapping[str, float]
    memory_bytes: int
    memory_bytes_per_s: float
    source: str

    def peak(self, precision: str) -> float:
        """FLOP/s of dense products at a precision.

        Raises
        ------
        TreadleError
            If the device has none; says which it has.
        """
        if precision not in self.peak_flops:
            raise TreadleError(
                f"device {self.name} has no {precision[:20]!r} products; it has {', '.join(self.peak_flops)}"
            )
        return self.peak_flops[precision]


def _preset(name: str, tflops: dict[str, float], memory_gb: int, gb_per_s: float, source: str) -> Accelerator:
    peaks = MappingProxyType({precision: 1e12 * speed for precision, speed in tflops.items()})
    return Accelerator(name, peaks, memory_gb * 2**30, 1e9 * gb_per_s, source)


_HOPPER: dict[str, float] = {"fp32": 67, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}
_AMPERE: dict[str, float] = {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312}
_MI300: dict[str, float] = {"fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9}

ACCELERATORS: Mapping[str, Accelerator] = MappingProxyType(
    {
        one.name: one
        for one in (
            _preset("v100", {"fp32": 15.7, "fp16": 125}, 32, 900, "NVIDIA V100 data sheet (SXM2, 32 GB)"),
            _preset("a100", _AMPERE, 80, 2039, "NVIDIA A100 data sheet (SXM, 80 GB)"),
            _preset("a100-40gb", _AMPERE, 40, 1555, "NVIDIA A100 data sheet (SXM, 40 GB)"),
            _preset("h100", _HOPPER, 80, 3350, "NVIDIA H100 data sheet (SXM5), halves of sparse figures"),
            _preset("h800", _HOPPER, 80, 3350, "as h100: the export variant differs in fp64 and NVLink"),
            _preset("h200", _HOPPER, 141, 4800, "NVIDIA H200 data sheet (SXM), halves of sparse figures"),
            _preset(
                "b200",
                {"fp32": 75, "tf32": 1100, "bf16": 2250, "fp16": 2250, "fp8": 4500},
                180,
                7700,
                "NVIDIA Blackwell data sheet (HGX B200), halves of sparse figures",
            ),
            _preset(
                "gb200",
                {"fp32": 80, "tf32": 1250, "bf16": 2500, "fp16": 2500, "fp8": 5000},
                186,
                8000,
                "NVIDIA Blackwell data sheet (GB200 NVL72), halves of sparse figures",
            ),
            _preset(
                "mi250",
                {"fp32": 45.3, "bf16": 181, "fp16": 181},
                64,
                1638.4,
                "AMD Instinct MI250 data sheet, half of it: one of its two dies; fp32 by matrix cores",
            ),
            _preset(
                "mi250x",
                {"fp32": 47.9, "bf16": 191.5, "fp16": 191.5},
                64,
                1638.4,
                "AMD Instinct MI250X data sheet, half of it: one of its two dies; fp32 by matrix cores",
            ),
            _preset("mi300x", _MI300, 192, 5300, "AMD Instinct MI300X data sheet"),
            _preset("mi325x", _MI300, 256, 6000, "AMD Instinct MI325X data sheet"),
        )
    }
)
"""Presets by name."""


def accelerator(name: str) -> Accelerator:
    """The preset of a name, however it is spelt.

    Raises
    ------
    TreadleError
        For an unknown name; lists all.

    Examples
    --------
    >>> accelerator("A100").peak("bf16")
    312000000000000.0
    """
    more = "; or a TOML file that describes one"
    return ACCELERATORS[known_name("GPU", name, ACCELERATORS, error=TreadleError, more=more)]


_SPEED = Meta(gt=0, lt=1e9, description="a positive number less than 10**9")
_SPEEDS = Meta(min_length=1, description="a table such as {bf16 = 312, fp32 = 19.5}")
_Text = Annotated[str, Meta(description="a text in quotes")]


class _Device(Table, frozen=True):
    name: _Text
    memory: _Text
    memory_bandwidth: _Text
    tflops: Annotated[dict[str, Annotated[float, _SPEED]], _SPEEDS]
    source: _Text = ""


def read_accelerator(text: str) -> Accelerator:
    """A device from a TOML text of the user's own.

    Parameters
    ----------
    text : str
        With ``name``, ``memory`` (a size with a unit), ``memory_bandwidth`` (a bandwidth with a unit), a
        table ``tflops`` of dense TFLOP/s by precision, and perhaps ``source``.

    Raises
    ------
    FormatError
        If the text is no TOML, lacks a key, has one too many, or a number that no device has.

    Examples
    --------
    >>> own = read_accelerator('name="x"\\nmemory="96GB"\\nmemory_bandwidth="4TB/s"\\ntflops={bf16=500}')
    >>> own.peak("bf16"), own.memory_bytes == 96 * 2**30
    (500000000000000.0, True)
    """
    if len(text) > _MOST_TEXT:
        raise FormatError(f"device file: expected at most {_MOST_TEXT} characters, found {len(text)}")
    device = read_toml(text, _Device, source="device file")
    if not (device.name.strip() and (device.name + device.source).isprintable()):
        raise FormatError(
            f"device file: name {device.name[:40]!r}: expected letters that can be printed on a line"
        )
    for precision in device.tflops:
        if precision not in ELEMENT_BYTES:
            raise FormatError(f"device file: {unknown('precision', precision, ELEMENT_BYTES)}")
    size = parse_size(device.memory)
    if not size:
        raise FormatError(f"device file: memory {device.memory!r}: expected more than 0")
    peaks = MappingProxyType({precision: 1e12 * speed for precision, speed in device.tflops.items()})
    bandwidth = float(parse_bandwidth(device.memory_bandwidth))
    return Accelerator(device.name[:40], peaks, size, bandwidth, device.source)
