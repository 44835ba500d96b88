"""A model as a graph of parts: of the user's own module, of the zoo, or of a ``config.json``."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from treadle.checking import checked, left_alone, unexpected
from treadle.errors import FormatError, MissingDependencyError, TreadleError
from treadle.parallelism.capture.joint import capture as capture_joint
from treadle.parallelism.graph.folding.fold import folded, repeated
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.searching.parallel_options import as_count
from treadle.training.models.training_model import TrainingModel

_FUNCTION = ".py:"


@checked(source=left_alone)
def capture(
    source: Any,
    *,
    name: str | None = None,
    repeats: int | None = None,
    tokens: int | str | None = None,
    sequence: int | str | None = None,
) -> ModelGraph:
    """The graph of one training step of a model, forward and backward, as parts that follow each other.

    Parameters
    ----------
    source : callable, str, Path or TrainingModel
        ``MODULE.py:make`` or the function itself: it returns a ``torch.nn.Module`` and a tuple of its
        arguments, of the sizes of a step on all ranks together. It is called with fake tensors: nothing is
        allocated. Or a name of the zoo, a ``config.json``, or a graph that was captured; these need no
        PyTorch.
    name : str, optional
        Of the model; default that of the file or of the zoo.
    repeats : int, optional
        The module is a block that runs this many times, each with parameters of its own. By default repeated
        layers are looked for.
    tokens, sequence : int or str, optional
        Of a step and of a sequence (131072, "128K"), for models of the zoo and of a ``config.json``; of a
        module, taken from its arguments.

    Raises
    ------
    TreadleError
        If an operator has no rule (named, with the line that calls it and what to add), the function or the
        module fails, or the model cannot be split into parts.
    MissingDependencyError
        Without PyTorch, for a module.

    Examples
    --------
    >>> import treadle
    >>> treadle.capture("llama-3-8b", tokens=2**17, sequence=8192).part("block").repeats
    32
    """
    make = maker(source)
    if make is None:
        if repeats is not None:
            raise FormatError(f"repeats {repeats}: {source} has its own layers; leave it out")
        return _known_model(
            source,
            None if tokens is None else as_count(tokens, "tokens"),
            None if sequence is None else as_count(sequence, "sequence"),
        )
    for word, value in (("tokens", tokens), ("sequence", sequence)):
        if value is not None:
            raise FormatError(f"{word} {value}: given by the module's arguments; leave it out")
    if repeats is not None and not 1 <= repeats <= 10**6:
        raise FormatError(f"repeats {repeats}; expected from 1 to 1000000")
    called = name or _name_of(source)
    with _no_collection():
        graph = capture_joint(make, is_fed=repeats is not None)
        if repeats is not None:
            return repeated(graph, name=called, repeats=repeats)
        return folded(graph, name=called)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the collector of cycles: it halves the time in which millions of small values are made, all of
    them kept (475 instead of 427 MB at the peak for 32 layers).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _name_of(source: object) -> str:
    if callable(source):
        return str(getattr(source, "__name__", "module"))
    return Path(str(source).partition(_FUNCTION)[0]).stem


def _known_model(source: object, tokens: int | None, sequence: int | None) -> ModelGraph:
    if isinstance(source, str) and source.endswith(".py"):
        raise FormatError(f"{source}: which of its functions makes the module? expected as {source}:make")
    return as_model_graph(source, tokens=tokens, sequence=sequence, notes=[])[0]


def maker(source: object) -> Callable[[], tuple[Any, tuple[Any, ...]]] | None:
    """The function that makes a module; None for whatever names a known model."""
    if isinstance(source, TrainingModel | Path):
        return None
    if isinstance(source, str):
        if _FUNCTION not in source:
            return None
        path, _, name = source.rpartition(":")
        place, make = source, _guarded(_function(path, name), source)
    elif callable(source):
        place, make = _name_of(source), _guarded(source, _name_of(source))
    else:
        raise unexpected("source", "a function, MODULE.py:make, a name of the zoo, or a file", source)

    def checked_pair() -> tuple[Any, tuple[Any, ...]]:
        pair = make()
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], tuple):
            raise FormatError(
                f"returned {type(pair).__name__}, no example inputs; return the module and a tuple of its "
                "inputs, e.g. return module, (torch.empty(16, 64),)",
                source=place,
            )
        return pair

    return checked_pair


def _function(path: str, name: str) -> Callable[[], Any]:
    """A function of a file of Python, which is run; its neighbours can be imported."""
    file = Path(path)
    if not file.is_file():
        raise FormatError("no such file", source=path)
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    loader = spec.loader
    assert loader is not None
    module = module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        _guarded(lambda: loader.exec_module(module), path)()
    finally:
        sys.path.pop(0)
    function = getattr(module, name, None)
    if not callable(function):
        raise FormatError(
            f"no function {name[:40]!r}; expected one that returns a module and its arguments", source=path
        )
    found: Callable[[], Any] = function
    return found


def _guarded(function: Callable[[], Any], place: str) -> Callable[[], Any]:
    """Wrap a third-party function: any exception becomes one line that names the place."""

    def call() -> Any:
        try:
            return function()
        except TreadleError:
            raise
        except ModuleNotFoundError as error:
            if error.name == "torch":
                raise MissingDependencyError(
                    "capture: PyTorch is missing; pip install 'treadle[torch]'"
                ) from error
            raise FormatError(_told(error), source=place) from error
        except (Exception, SystemExit) as error:
            raise FormatError(_told(error), source=place) from error

    return call


def _told(error: BaseException) -> str:
    """An exception in one line, and where it was raised."""
    what = " ".join(str(error).split())[:200]
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{at}: {what}"
