"""States of tensors as people read and type them: ``k:1/h:0,2``, by letters of the model's graph.

Letter k is cut by axis 1, letter h by axis 0 and what that leaves by axis 2; ``whole`` is everything at every
rank. The letters are those that `str` of a model graph shows.
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
    """A letter for each factor of a tensor, a ``'`` behind it where it stands there again."""
    graph = part.graph
    return tuple(
        graph.atoms[index.atom].name + "'" * index.prime for dim in graph.result(tensor).dims for index in dim
    )


def spelled_state(letters: Sequence[str], state: Sharding) -> str:
    """A state in words.

    Examples
    --------
    >>> spelled_state("bsh", Sharding((("dp",), ("cp", "tp"), ())))
    'b:dp/s:cp,tp'
    >>> spelled_state("bs", Sharding(((), ()), frozenset({"tp"}))), spelled_state("b", Sharding(((),)))
    ('sum over tp', 'whole')
    """
    words = [f"{letter}:{','.join(axes)}" for letter, axes in zip(letters, state.dims, strict=True) if axes]
    cut = "/".join(words)
    if state.partial:
        return f"{cut}{cut and ', '}sum over {','.join(sorted(state.partial))}"
    return cut or WHOLE


def read_state(text: str, letters: Sequence[str], axes: Sequence[str], *, place: str) -> Sharding:
    """A state that `spelled_state` spells, of a tensor that is no sum.

    Raises
    ------
    FormatError
        Naming the letter or axis that is not there, or stands twice.
    """
    cuts: dict[str, tuple[str, ...]] = {}
    for word in () if text.strip() == WHOLE else text.split("/"):
        letter, colon, names = (part.strip() for part in word.partition(":"))
        if not colon or letter not in letters:
            raise FormatError(
                f"{place}: {word.strip()[:40]!r}: expected LETTER:AXIS,... with a letter of "
                f"{''.join(letters)}, several with / between, or {WHOLE}"
            )
        own = tuple(name.strip() for name in names.split(","))
        for axis in own:
            if axis not in axes:
                raise FormatError(f"{place}: no axis {axis[:40]!r} in the mesh; it has {', '.join(axes)}")
        if letter in cuts:
            raise FormatError(f"{place}: letter {letter} stands twice")
        cuts[letter] = own
    used = [axis for own in cuts.values() for axis in own]
    if len(set(used)) < len(used):
        raise FormatError(f"{place}: an axis cuts two letters, or one twice; expected each at most once")
    return Sharding(tuple(cuts.get(letter, ()) for letter in letters))


def matching_tensors(model: ModelGraph, name: str) -> list[tuple[str, TensorRef]]:
    """Tensors that a name means: (part, tensor) of each.

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
    parts = [part for part in model.parts if wanted == name or part.name == place]
    exact: list[tuple[str, TensorRef]] = []
    weights: list[tuple[str, TensorRef]] = []
    loose: list[tuple[str, TensorRef]] = []
    known: list[str] = []
    for part in parts:
        for path, tensor in part.parameters.items():
            known.append(path)
            called = (path, path.removesuffix(_WEIGHT))
            if wanted in called or ("." in wanted and any(one.endswith(f".{wanted}") for one in called)):
                exact.append((part.name, tensor))
            elif wanted in path.split("."):
                (weights if path.endswith(_WEIGHT) else loose).append((part.name, tensor))
        for tensor in part.graph.tensors():
            spelled = part.graph.spelled(tensor)
            known.append(spelled)
            if wanted == spelled and (part.name, tensor) not in (*exact, *weights, *loose):
                exact.append((part.name, tensor))
    if found := exact or weights or loose:
        return found
    raise FormatError(
        f"{model.name} has no tensor {name[:60]!r}{did_you_mean(wanted, dict.fromkeys(known))}; "
        f"its graph names them all (treadle capture {model.name})"
    )
