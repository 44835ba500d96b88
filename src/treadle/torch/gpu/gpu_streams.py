"""Tensors of GPUs and the streams of their callers: all that this backend asks PyTorch's CUDA for."""

from __future__ import annotations

import torch
from torch import Tensor


def is_on_gpu(tensor: Tensor) -> bool:
    """Whether a tensor is in memory of a GPU of CUDA's."""
    return bool(tensor.is_cuda)


def any_on_gpu(given: object) -> bool:
    """Whether the first tensor in nested lists is."""
    while isinstance(given, (list, tuple)) and given:
        given = given[0]
    return isinstance(given, Tensor) and is_on_gpu(given)


def device_of(tensor: Tensor) -> int:
    """Number of the tensor's GPU in this process."""
    return int(tensor.device.index)


def stream_of(tensor: Tensor) -> int:
    """The caller's current stream on the tensor's GPU."""
    return int(torch.cuda.current_stream(tensor.device).cuda_stream)


def is_capturing() -> bool:
    """Whether the caller's current stream is captured into a graph."""
    return bool(torch.cuda.is_current_stream_capturing())


class _Bytes:
    """Memory of a GPU as other libraries of Python's offer it."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "strides": None,
            "typestr": "|u1",
            "version": 3,
        }


def tensor_at(address: int, size: int, device: int) -> Tensor:
    """Wrap GPU memory of another owner as a tensor."""
    return torch.as_tensor(_Bytes(address, size), device=torch.device("cuda", device))


def devices_of(tensors: list[Tensor]) -> list[torch.device]:
    """GPUs whose streams a future of these tensors must follow."""
    return sorted({tensor.device for tensor in tensors if tensor.is_cuda}, key=str)
