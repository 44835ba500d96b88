"""Replicas: gradients summed in buckets beside the backward pass (Li et al. 2020, PyTorch Distributed).

Gradients get ready from the last layer to the first, a layer's when its backward pass has ended. They fill a
bucket; one that has reached its capacity is summed by an allreduce (dissertation A.1.4). What is left at the
end is the last bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Buckets:
    """Gradients that are ready and not on their way.

    Parameters
    ----------
    capacity : int
        Bytes.
    first_capacity : int
        Of the first bucket.
    """

    capacity: int
    first_capacity: int
    filled: int = 0
    closed: int = 0

    def add(self, tensors: Iterable[int]) -> list[int]:
        """Puts gradients in, in the order given; returns the bytes of each bucket that they close."""
        sizes = []
        for size in tensors:
            self.filled += size
            if self.filled >= (self.capacity if self.closed else self.first_capacity):
                sizes.append(self.filled)
                self.filled, self.closed = 0, self.closed + 1
        return sizes

    def close(self) -> list[int]:
        """The size of the last bucket, if there is anything in it."""
        rest, self.filled = self.filled, 0
        return [rest] if rest else []
