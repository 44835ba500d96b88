"""Capture of a module of PyTorch: forward and backward as one compute graph, on fake CPU tensors.

``aot_export_joint_with_descriptors`` traces the joint graph; its descriptors say which placeholder is
which parameter, which output its gradient, and which tangent belongs to which output. Tensors are fake and
on the CPU: on the device ``meta`` attention falls apart and a loss loses its backward pass without an
error.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import Any

from treadle.errors import MissingDependencyError, TreadleError
from treadle.parallelism.capture.added_rules import registered_rules
from treadle.parallelism.capture.reading import read_joint
from treadle.parallelism.capture.rules import OperatorRule
from treadle.parallelism.graph.compute_graph import ComputeGraph

_MOST_WORDS = 300
"""Characters of an error of others."""


def capture(
    make: Callable[[], tuple[Any, tuple[Any, ...]]],
    *,
    rules: Iterable[OperatorRule] = (),
    is_fed: bool = False,
) -> ComputeGraph:
    """Return the compute graph of one step of a module.

    Parameters
    ----------
    make : function
        Makes the module (``torch.nn.Module``) and its positional arguments; called on fake tensors, so that
        nothing is allocated or initialised.
    rules : iterable of OperatorRule
        For operators that the table lacks; they come before it, and before those that are registered.
    is_fed : bool
        The first argument of floating point comes from another part, which needs its gradient.

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
    losses = [aten.nll_loss_forward, aten.nll_loss_backward]
    softmax = [aten._log_softmax, aten._log_softmax_backward_data]
    table = get_decompositions([aten.native_layer_norm_backward, *losses, *softmax])
    table |= {aten.mean.dim: _mean, aten.mean.default: _mean}
    table |= {aten.addmm.default: _added_to(aten.mm), aten.baddbmm.default: _added_to(aten.bmm)}
    with FakeTensorMode(allow_non_fake_inputs=True), ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of its own use of deprecated names
        with _converting_modules():
            module, arguments = make()
        if not isinstance(module, torch.nn.Module) or not isinstance(arguments, tuple):
            raise TreadleError(
                f"capture: make() returned {type(module).__name__}, {type(arguments).__name__}; "
                "expected a torch.nn.Module and a tuple of its arguments"
            )
        if is_fed and not any(getattr(one, "requires_grad", False) for one in arguments):
            floats = [one for one in arguments if isinstance(one, torch.Tensor) and one.is_floating_point()]
            arguments = tuple(one.requires_grad_() if one in floats[:1] else one for one in arguments)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise TreadleError(
                f"capture: no parameter of {type(module).__name__} is trained; expected one or more"
            )
        try:
            with _lines_of_the_model():
                joint = aot_export_joint_with_descriptors(stack, module, arguments, decompositions=table)
        except Exception as error:  # whatever the module, or PyTorch on its behalf, cannot do
            raise TreadleError(f"capture: {type(module).__name__}: {_told(error)}") from error
        tied = _tied(module)
    registered, faults = registered_rules()
    return read_joint(joint.graph_module, rules=(*registered, *rules), tied=tied, faults=faults)


def _mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Write a mean as a sum that is divided: means of parts are not parts of a mean."""
    axes = range(x.dim()) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return x.sum(list(axes), keepdim, dtype=dtype) / prod(x.shape[axis] for axis in axes)


def _added_to(product: Any) -> Callable[..., Any]:
    """Return a product that is added to a tensor; factors of 1 are not operators."""

    def added(x: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        made = product(first, second) if alpha == 1 else alpha * product(first, second)
        return made if beta == 0 else (x if beta == 1 else beta * x) + made

    return added


def _told(error: BaseException) -> str:
    """Format an exception in one line, with the innermost place outside PyTorch where it was raised."""
    import torch

    own = str(Path(torch.__file__).parent)
    places = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(own) and frame.filename != __file__
    ]
    what = " ".join(str(error).split())[:_MOST_WORDS]
    return f"{type(error).__name__}{f' at {places[-1]}' if places else ''}: {what}"


def _tied(module: Any) -> dict[str, str]:
    """Return the second names of parameters and buffers that a module has twice, with their first names."""
    first: dict[int, str] = {}
    tied = {}
    for names in (module.named_parameters, module.named_buffers):
        for name, value in names(remove_duplicate=False):
            if (known := first.setdefault(id(value), name)) != name:
                tied[name] = known
    return tied


@contextmanager
def _converting_modules() -> Iterator[None]:
    """Lets modules of fake tensors take another precision: PyTorch would swap tensors, which it cannot here.

    A parameter that a module has twice stays one.
    """
    import torch

    known: dict[int, tuple[Any, Any]] = {}  # with the old ones, so that no id is used again

    def applied(module: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
        for child in module.children() if recurse else ():
            applied(child, function)
        for name, value in list(module._parameters.items()):
            if value is not None:
                if id(value) not in known:
                    made = torch.nn.Parameter(function(value.detach()), value.requires_grad)
                    known[id(value)] = value, made
                module._parameters[name] = known[id(value)][1]
        for name, value in list(module._buffers.items()):
            if value is not None:
                module._buffers[name] = function(value)
        return module

    original = torch.nn.Module._apply
    torch.nn.Module._apply = applied
    try:
        yield
    finally:
        torch.nn.Module._apply = original


def _lines_of_the_model() -> Any:
    """Return A mode that notes where the model calls each operator: the innermost place outside torch."""
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
