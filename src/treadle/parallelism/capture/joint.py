"""Capture of a module of PyTorch: forward and backward as one compute graph, on fake CPU tensors.

``aot_export_joint_with_descriptors`` traces the joint graph; its descriptors tell which placeholder is
which parameter, which output its gradient, and which tangent belongs to which output. Tensors are fake and
on the CPU: on the device ``meta`` attention falls apart and a loss loses its backward pass without an
error.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

from treadle.errors import MissingDependencyError, TreadleError
from treadle.parallelism.capture.reading import read_joint
from treadle.parallelism.capture.rules import OperatorRule
from treadle.parallelism.graph.compute_graph import ComputeGraph


def capture(
    make: Callable[[], tuple[Any, tuple[Any, ...]]], *, rules: Iterable[OperatorRule] = ()
) -> ComputeGraph:
    """The compute graph of one step of a module.

    Parameters
    ----------
    make : function
        Makes the module (``torch.nn.Module``) and its positional arguments; called on fake tensors, so that
        nothing is allocated or initialised. It must not move modules (``.to``).
    rules : iterable of OperatorRule
        For operators that the table lacks; they come before it.

    Returns
    -------
    ComputeGraph
        Forward and backward, with gradients of all parameters.

    Raises
    ------
    TreadleError
        If an operator has no rule (names it, where the model calls it, and what to add), or dimensions have
        no common factors.
    MissingDependencyError
        Without PyTorch.
    """
    try:
        import torch
        from torch._decomp import get_decompositions
        from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ImportError as error:
        raise MissingDependencyError("capture: PyTorch is missing; pip install 'treadle[torch]'") from error
    aten = torch.ops.aten
    # losses fall apart into gathers, maxima and sums, each of which can be split
    table = get_decompositions(
        [
            aten.addmm,
            aten.baddbmm,
            aten.native_layer_norm_backward,
            aten.nll_loss_forward,
            aten.nll_loss_backward,
            aten._log_softmax,
            aten._log_softmax_backward_data,
        ]
    )
    table |= {aten.mean.dim: _mean, aten.mean.default: _mean}
    with FakeTensorMode(allow_non_fake_inputs=True), ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of its own use of deprecated names
        module, arguments = make()
        if not isinstance(module, torch.nn.Module) or not isinstance(arguments, tuple):
            raise TreadleError(
                f"capture: make() returned {type(module).__name__}, {type(arguments).__name__}; "
                "expected a torch.nn.Module and a tuple of its arguments"
            )
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise TreadleError(
                f"capture: no parameter of {type(module).__name__} is trained; expected one or more"
            )
        with _lines_of_the_model():
            joint = aot_export_joint_with_descriptors(stack, module, arguments, decompositions=table)
        tied = _tied(module)
    return read_joint(joint.graph_module, rules=rules, tied=tied)


def _mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A sum that is divided: means of parts are no parts of a mean."""
    axes = range(x.dim()) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return x.sum(list(axes), keepdim, dtype=dtype) / prod(x.shape[axis] for axis in axes)


def _tied(module: Any) -> dict[str, str]:
    """Second names of parameters and buffers that a module has twice, with their first names."""
    first: dict[int, str] = {}
    tied = {}
    for names in (module.named_parameters, module.named_buffers):
        for name, value in names(remove_duplicate=False):
            if (known := first.setdefault(id(value), name)) != name:
                tied[name] = known
    return tied


def _lines_of_the_model() -> Any:
    """A mode that notes where the model calls each operator: the innermost place outside torch."""
    import torch
    from torch.fx.traceback import set_stack_trace
    from torch.overrides import TorchFunctionMode

    own = str(Path(torch.__file__).parent)

    class Lines(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
                frame = frame.f_back
            is_ours = frame.f_code.co_filename == __file__  # the module is one of torch
            set_stack_trace([] if is_ours else [f'File "{frame.f_code.co_filename}", line {frame.f_lineno}'])
            return function(*args, **(kwargs or {}))

    return Lines()
