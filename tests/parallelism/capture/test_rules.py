"""Every rule of the table against PyTorch: an operator runs on parts of its tensors, and they make the whole.

A role that results have is split: parts of results stand side by side. A role that only operands have is
split: results add up (or their maxima are taken).
"""

from __future__ import annotations

import operator as arithmetic

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.capture.sample_calls import MADE, SAMPLES, called, rebuilt  # noqa: E402
from treadle.parallelism.capture.rules import RULES  # noqa: E402
from treadle.parallelism.capture.specification import read_specification  # noqa: E402
from treadle.parallelism.graph.compute_graph import OperatorKind  # noqa: E402


def splits(words):
    """Roles that stand alone in a dimension, and nowhere in a product."""
    alone = {part[0] for word in words for part in word if len(part) == 1}
    return sorted(alone - {label for word in words for part in word if len(part) > 1 for label in part})


def part(tensor, word, role: str, half: int):
    for axis, labels in enumerate(word):
        if labels == (role,):
            size = tensor.shape[axis] // 2
            tensor = tensor.narrow(axis, half * size, size)
    return tensor


def sized(arguments, sizes, role_axis):
    """Sizes of results among the arguments, for halves."""
    return [
        [s // 2 if n == role_axis else s for n, s in enumerate(value)]
        if isinstance(value, list) and value == list(sizes)
        else value
        for value in arguments
    ]


def test_every_rule_has_a_sample() -> None:
    assert {rule.operator for rule in RULES} == {*SAMPLES, *MADE}


@pytest.mark.parametrize("name", SAMPLES)
def test_parts_make_the_whole(name: str) -> None:
    rule = next(rule for rule in RULES if rule.operator == name)
    call, tensors, wholes, target = called(name, SAMPLES[name])
    read = read_specification(
        rule.specify(call), tuple(map(len, call.operands)), tuple(map(len, call.results))
    )
    roles = set(splits((*read.operands, *read.results))) - read.whole
    made = {role for word in read.results for labels in word for role in labels}
    held = {role for word in read.operands for labels in word for role in labels}
    if rule.kind in (OperatorKind.GATHER, OperatorKind.SCATTER):
        roles &= made & held  # what is read or written by place needs a mask
        roles -= {"z", "v"}
    if rule.kind is OperatorKind.ATTENTION:
        roles -= {"k", "s", "q", "e", "v"}
    for role in roles:
        halves = []
        for half in (0, 1):
            parts = [part(t, word, role, half) for t, word in zip(tensors, read.operands, strict=True)]
            arguments = rebuilt(SAMPLES[name], parts)
            if role in made and name in ("aten.slice_backward.default", "aten.select_backward.default"):
                arguments = sized(arguments, call.results[0], read.results[0].index((role,)))
            results = target(*arguments)
            halves.append(results if isinstance(results, tuple | list) else [results])
        for place, whole in enumerate(wholes):
            pair = [half[place] for half in halves]
            axes = [axis for axis, labels in enumerate(read.results[place]) if labels == (role,)]
            if axes:
                found = torch.cat(pair, axes[0])
            elif "max" in name or "min" in name:
                found = torch.maximum(*pair) if "max" in name else torch.minimum(*pair)
            else:
                found = arithmetic.add(*pair)
            torch.testing.assert_close(found, whole, msg=lambda text, role=role: f"{name}, {role}: {text}")


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_from_nothing_has_its_shape(name: str) -> None:
    rule = next(rule for rule in RULES if rule.operator == name)
    call, _, _, _ = called(name, MADE[name])
    read = read_specification(rule.specify(call), (), tuple(map(len, call.results)))
    assert [len(word) for word in read.results] == [len(shape) for shape in call.results]
