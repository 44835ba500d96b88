"""What a rank holds at each moment: bytes of the storages of its live tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class RankHoldings:
    """Owners of tensors, and the fullest moment so far.

    Attributes
    ----------
    peak_bytes : int
        Of all tensors that owners hold and an operator reads and makes; a storage counts once.
    peak_at : str
        The operator.
    """

    def __init__(self) -> None:
        self._owners: dict[object, Callable[[], Iterable[Tensor]]] = {}
        self.peak_bytes, self.peak_at = 0, ""

    def add(self, owner: object, held: Callable[[], Iterable[Tensor]]) -> None:
        """Count what ``held`` tells from now on."""
        self._owners[owner] = held

    def measure(self, moment: str, beside: Sequence[Tensor]) -> None:
        """Count what is held now, and these."""
        storages = {}
        for tensor in (*beside, *(one for held in self._owners.values() for one in held())):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        total = sum(storages.values())
        if total > self.peak_bytes:
            self.peak_bytes, self.peak_at = total, moment
