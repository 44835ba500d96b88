"""Tensors in memory that all ranks of a group reach, into which messages are put straight away."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from treadle.torch.group import TreadleGroup

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def empty(
    *size: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Same as `torch.empty`, in memory that the other ranks' GPUs reach; all ranks of the group call it.

    Collectives of the group on it need no staging, and no copy with in-network operations. It is there
    until the group is destroyed, and must not be used after that.

    Parameters
    ----------
    *size : int
        Or one sequence of them.
    dtype : torch.dtype, optional
        Default: torch's.
    device : torch.device, optional
        Default: the current GPU, or the CPU where there is none: there it is an ordinary tensor.
    group : ProcessGroup, optional
        Of the backend `treadle`. Default: all ranks.

    Raises
    ------
    NoPlanError
        If the group's calls do not run as Treadle's kernels; the message says why.
    TypeError
        If the group is of another backend.

    Notes
    -----
    In a collective, all ranks must pass such tensors, or parts of them at the same place, or all others:
    the kernels detect a rank that does not, and the group fails. Never run on a GPU.

    Examples
    --------
    >>> empty(2, 3, device="cpu").shape
    torch.Size([2, 3])
    """
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if device is None:
        place = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else None
    else:
        place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if place is None or place.type == "cpu":
        return torch.empty(shape, dtype=dtype, device="cpu")
    own: Any = torch.distributed.group.WORLD if group is None else group
    if not isinstance(own, TreadleGroup):
        raise TypeError(f"treadle.torch.empty: expected a group of the backend treadle, found {own}")
    index = torch.cuda.current_device() if place.index is None else place.index
    count = math.prod(shape)
    return own._gpu.empty(count * dtype.itemsize, index).view(dtype)[:count].view(shape)
