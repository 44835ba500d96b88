"""A linear layer to capture: the example of the dissertation, figures 5.1 and 5.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.errors import MissingDependencyError

BATCH, SEQUENCE, INPUTS, OUTPUTS = 64, 4096, 1024, 2048
"""Sizes in figure 5.2."""


def linear_layer(*, has_bias: bool) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """Return the function that makes the layer and its argument.

    With a bias the input needs no gradient, as in figure 5.2; without one it does, as in figure 5.1.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError("capture: PyTorch is missing; pip install 'treadle[torch]'") from error

    class Linear(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(INPUTS, OUTPUTS))
            self.bias = torch.nn.Parameter(torch.empty(OUTPUTS)) if has_bias else None

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            product = torch.matmul(given, self.weight)
            return product if self.bias is None else product + self.bias

    return lambda: (Linear(), (torch.empty(BATCH, SEQUENCE, INPUTS, requires_grad=not has_bias),))
