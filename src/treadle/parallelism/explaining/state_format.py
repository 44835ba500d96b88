"""States of tensors as people read and type them: ``k:1/h:0,2``, by dimensions of the model's graph.

Dimension k is sharded by axis 1, h by axis 0 and the rest by axis 2; ``whole`` is everything at every
rank. The names are those of `str` of a model graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.errors import FormatError
from treadle.parallelism.graph.compute_graph import TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.state.sharding import Sharding
from treadle.spelling import did_you_mean

WHOLE = "whole"
_WEIGHT = ".weight"
"""Ending of the parameter that a module's name means, before its bias."""


def dims_of(part: ModelPart, tensor: TensorRef) -> tuple[str, ...]:
    """Name each factor of a tensor, with a ``'`` if it appears again."""
    return tuple(part.graph.dim_name(index) + "'" * index.prime for index in part.graph.factors(tensor))


def spelled_state(letters: Sequence[str], state: Sharding) -> str:
    """Format a state.

    Examples
    --------
    >>> spelled_state("bsh", Sharding((("dp",), ("cp", "tp"), ())))
    'b:dp/s:cp,tp'
    >>> spelled_state("bs", Sharding(((), ()), frozenset({"tp"}))), spelled_state("b", Sharding(((),)))
    ('sum over tp', 'whole')
    """
    cuts = zip(letters, state.dims, strict=True)
    words = ["/".join(f"{letter}:{','.join(axes)}" for letter, axes in cuts if axes)]
    if state.partial:
        words.append(f"sum over {','.join(sorted(state.partial))}")
    return ", ".join(filter(None, words)) or WHOLE


def read_state(text: str, letters: Sequence[str], axes: Sequence[str], *, place: str) -> Sharding:
    """Parse a state as `spelled_state` formats it, of a tensor that is not partial.

    Raises
    ------
    FormatError
        Naming the unknown or repeated dimension or axis.
    """
    cuts: dict[str, tuple[str, ...]] = {}
    for word in () if text.strip() == WHOLE else text.split("/"):
        letter, colon, names = (part.strip() for part in word.partition(":"))
        if not colon or letter not in letters:
            raise FormatError(
                f"{place}: {word.strip()[:40]!r}: expected DIM:AXIS,... with a dimension of "
                f"{''.join(letters)}, several with / between, or {WHOLE}"
            )
        own = tuple(name.strip() for name in names.split(","))
        for axis in own:
            if axis not in axes:
                raise FormatError(f"{place}: no axis {axis[:40]!r} in the mesh; it has {', '.join(axes)}")
        if letter in cuts:
            raise FormatError(f"{place}: dimension {letter} appears twice")
        cuts[letter] = own
    used = [axis for own in cuts.values() for axis in own]
    if len(set(used)) < len(used):
        raise FormatError(f"{place}: an axis shards two dimensions, or one twice; expected each at most once")
    return Sharding(tuple(cuts.get(letter, ()) for letter in letters))


def matching_tensors(model: ModelGraph, name: str) -> list[tuple[str, TensorRef]]:
    """Return the tensors that a name means: (part, tensor) of each.

    Parameters
    ----------
    model : ModelGraph
    name : str
        A node (``query``, ``attention.1`` for its second result), a parameter's path, its end or a word of it
        (``wq``), in all parts or behind a part's name: ``block/wq``.

    Raises
    ------
    FormatError
        If there is none.
    """
    place, slash, own = name.partition("/")
    wanted = own if slash and place in {part.name for part in model.parts} else name
    exact, weights, loose = (list[tuple[str, TensorRef]]() for _ in range(3))
    known: list[str] = []
    for part in [part for part in model.parts if wanted == name or part.name == place]:
        for path, tensor in part.parameters.items():
            known.append(path)
            called = (path, path.removesuffix(_WEIGHT))
            if wanted in called or ("." in wanted and any(one.endswith(f".{wanted}") for one in called)):
                exact.append((part.name, tensor))
            elif wanted in path.split("."):
                (weights if path.endswith(_WEIGHT) else loose).append((part.name, tensor))
        for tensor in part.graph.tensors():
            known.append(part.graph.spelled(tensor))
            if wanted == known[-1] and (part.name, tensor) not in (*exact, *weights, *loose):
                exact.append((part.name, tensor))
    if found := exact or weights or loose:
        return found
    raise FormatError(
        f"{model.name} has no tensor {name[:60]!r}{did_you_mean(wanted, dict.fromkeys(known))}; "
        f"its graph names them all (treadle capture {model.name})"
    )
