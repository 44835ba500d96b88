"""What a user chooses for tensors of GPUs: fields of `treadle.torch.Options`, or environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from treadle.errors import FormatError, ScheduleError
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.measured_sizes import parse_size
from treadle.simulation.block_costs import DEFAULT_LANE_MODEL, block_costs


class GpuMethod(StrEnum):
    """How collectives of a GPU's tensors go, spelt as in TREADLE_GPU.

    Examples
    --------
    >>> [one.value for one in GpuMethod]
    ['auto', 'lanes', 'steps', 'nccl']
    """

    AUTO = "auto"
    """Lanes on one host, steps between hosts."""
    LANES = "lanes"
    """A kernel of Treadle's for each call; refused where that cannot be."""
    STEPS = "steps"
    """Sends and receives in groups, by NCCL: a launch and more for each step."""
    NCCL = "nccl"
    """NCCL's own collectives."""


class GpuMemory(StrEnum):
    """Who provides memory that peers reach, spelt as in TREADLE_GPU_MEMORY.

    Examples
    --------
    >>> [one.value for one in GpuMemory]
    ['ipc', 'symmetric', 'nccl', 'cumem']
    """

    IPC = "ipc"
    """CUDA's handles between processes of one host."""
    SYMMETRIC = "symmetric"
    """PyTorch's symmetric memory."""
    NCCL = "nccl"
    """Windows of NCCL 2.29 or later."""
    CUMEM = "cumem"
    """CUDA's virtual memory, shared by descriptors between processes of one host, with multicast."""


@dataclass(frozen=True)
class GpuSettings:
    """How calls with tensors of GPUs are made.

    Parameters
    ----------
    way : GpuMethod
    memory : GpuMemory
    cost_model : str
        Chooses what is not said below.
    protocol : DeviceProtocol, optional
    lanes, threads, slice_bytes : int, optional
    window_bytes : int
        Largest INPUT or OUTPUT that is copied to memory which switches reach, where a plan asks them and the
        tensors lie elsewhere; 0: none.
    """

    way: GpuMethod = GpuMethod.AUTO
    memory: GpuMemory = GpuMemory.IPC
    cost_model: str = DEFAULT_LANE_MODEL
    protocol: DeviceProtocol | None = None
    lanes: int | None = None
    threads: int | None = None
    slice_bytes: int | None = None
    window_bytes: int = 2**25


def gpu_settings(environment: Mapping[str, str]) -> GpuSettings:
    """What environment variables say: TREADLE_GPU, and TREADLE_GPU_MEMORY and so on.

    Raises
    ------
    FormatError
        If a value is malformed.

    Examples
    --------
    >>> gpu_settings({"TREADLE_GPU_PROTOCOL": "ll", "TREADLE_GPU_LANES": "4"}).lanes
    4
    """

    def setting(name: str) -> str | None:
        return environment.get(f"TREADLE_GPU{name}") or None

    def one_of(name: str, values: Mapping[str, object]) -> object:
        text = setting(name)
        if text is None:
            return None
        if text.lower() not in values:
            raise FormatError(f"TREADLE_GPU{name}={text[:40]}: expected one of {', '.join(values)}")
        return values[text.lower()]

    def number(name: str, most: int) -> int | None:
        text = setting(name)
        if text is None:
            return None
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise FormatError(f"TREADLE_GPU{name}={text[:40]}: expected a number from 1 to {most}")
        return int(text)

    protocols = {"auto": None, **{one.value.lower(): one for one in DeviceProtocol}}
    slice_text, window_text = setting("_SLICE"), setting("_WINDOW")
    found = GpuSettings(
        way=one_of("", {one.value: one for one in GpuMethod}) or GpuMethod.AUTO,  # type: ignore[arg-type]
        memory=one_of("_MEMORY", {one.value: one for one in GpuMemory}) or GpuMemory.IPC,  # type: ignore[arg-type]
        cost_model=setting("_COST_MODEL") or DEFAULT_LANE_MODEL,
        protocol=one_of("_PROTOCOL", protocols),  # type: ignore[arg-type]
        lanes=number("_LANES", 64),
        threads=number("_THREADS", 512),
        slice_bytes=parse_size(slice_text) if slice_text else None,
        window_bytes=parse_size(window_text) if window_text else GpuSettings.window_bytes,
    )
    return checked(found)


def checked(settings: GpuSettings) -> GpuSettings:
    """The same; FormatError where the cost model has no name of ours, or a slice is too small."""
    try:
        block_costs(settings.cost_model)
    except ScheduleError as error:
        raise FormatError(str(error)) from None
    if settings.slice_bytes is not None and settings.slice_bytes < 1024:
        raise FormatError(f"slice of {settings.slice_bytes} bytes on a GPU: expected at least 1024")
    return settings
