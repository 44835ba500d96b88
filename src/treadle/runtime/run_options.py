"""What may be asked of a run on real data, whichever runtime moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.block_sizes import BlockCosts


@dataclass(frozen=True)
class RunOptions:
    """How a program is run at each size, checked and timed.

    Parameters
    ----------
    element, reduction
        Type of the elements and how they are combined; the compiled interpreter knows some of them.
    iterations : int
        Most timed runs per size, at least 1.
    warmup : int
        Most untimed runs per size after the checked one.
    budget_s : float
        Runs of one size stop being added beyond so many seconds, so that large sizes take fewer.
    seed : int
        Of the input data; the compiled interpreter has data of its own.
    slice_bytes : int, optional
        Largest message, more or less: larger chunks go in slices, so that the hops of a tree overlap.
        Default: what was measured to be best of the runtime.
    with_reference : bool
        Also time MPI's own collective, where MPI knows element type and reduction; over MPI only.
    device_protocols : tuple of DeviceProtocol
        A row of each; of the device runtime only, as are the next two. None: the one that is estimated to be
        quicker at each size.
    lanes : int, optional
        Most thread blocks of a rank. Default: two as threads of this process, by size on a GPU.
    threads : int, optional
        Of a block. Default: one, or by size.
    lane_costs : BlockCosts, optional
        By which sizes choose what is not said of lanes. None: nothing is chosen, Simple is taken.
    """

    element: ElementType = ElementType.FLOAT32
    reduction: Reduction = Reduction.SUM
    iterations: int = 20
    warmup: int = 2
    budget_s: float = 1.0
    seed: int = 0
    slice_bytes: int | None = None
    with_reference: bool = False
    device_protocols: tuple[DeviceProtocol, ...] = ()
    lanes: int | None = None
    threads: int | None = None
    lane_costs: BlockCosts | None = None

    def runs_after(self, first_s: float) -> tuple[int, int]:
        """Timed and untimed runs of a size whose first run took so many seconds."""
        affordable = max(1, int(self.budget_s / max(first_s, 1e-9)))
        return max(1, min(self.iterations, affordable)), min(self.warmup, affordable - 1)

    def slices_of(self, default_bytes: int) -> int:
        """Largest message of a runtime that has this default."""
        return default_bytes if self.slice_bytes is None else self.slice_bytes


class RunKeywords(TypedDict, total=False):
    """`RunOptions` as keyword arguments.

    Examples
    --------
    >>> import treadle
    >>> options: treadle.planning.RunKeywords = {"iterations": 1, "warmup": 0}
    >>> treadle.run(treadle.solve("ring:4", "allreduce"), "1K", **options).wrong
    0
    """

    element: ElementType
    reduction: Reduction
    iterations: int
    warmup: int
    budget_s: float
    seed: int
    slice_bytes: int | None
    with_reference: bool
    device_protocols: tuple[DeviceProtocol, ...]
    lanes: int
    threads: int
    lane_costs: BlockCosts | None
