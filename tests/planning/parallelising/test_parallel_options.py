"""What may be asked of a search for a plan: the values that words make, and what is refused."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

import pytest
from tests.parallelism.plan.small_models import small_model

from treadle import parallelize
from treadle.errors import FormatError
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.searching.parallel_options import (
    parallel_request,
    read_constraints,
)
from treadle.parallelism.searching.plan_search import STAGES
from treadle.schedules.mesh import Mesh
from treadle.training.devices import Accelerator

KINDS = ("bf16", "fp16", "fp32")


def device(*precisions: str) -> Accelerator:
    peaks = {one: 1e12 * (at + 1) for at, one in enumerate(precisions)}
    return Accelerator("own", MappingProxyType(peaks), 3 * 2**20, 1e9, "")


@pytest.mark.parametrize(
    ("there", "taken"), [(KINDS, "bf16"), (("fp32", "fp16"), "fp16"), (("fp32",), "fp32")]
)
def test_the_precision_is_the_first_that_the_device_has(there: tuple[str, ...], taken: str) -> None:
    assert parallel_request(device(*there), 1, {}).times.precision == taken


@pytest.mark.parametrize("text", ["wq", "=whole", "wq=", " = "])
def test_pins_need_a_tensor_and_a_state(text: str) -> None:
    with pytest.raises(FormatError, match=f"^--pin {text!r}: expected TENSOR=STATE, e.g. wq=k:1/h:0"):
        read_constraints([text])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tokens": 17}, "--tokens 17: the graph of small was captured with 16; capture it again"),
        ({"sequence": 8}, "--sequence 8: the graph of small has its own; leave it out"),
        ({"micro_batches": 2}, "--micro-batches 2: the graph of small is that of a whole step"),
    ],
)
def test_a_graph_leaves_nothing_to_ask(asked: dict[str, int], message: str) -> None:
    with pytest.raises(FormatError, match=f"^{re.escape(message)}"):
        as_model_graph(small_model(), **{"tokens": 16, "sequence": None, "notes": [], **asked})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mesh": "pp=4,tp=2"}, "--mesh pp=4,tp=2"),
        ({"mesh": Mesh((4, 2), (STAGES, "tp"))}, "--mesh pp=4,tp=2"),
        ({"micro_batches": 2}, "--micro-batches 2"),
        ({"interleave": 2}, "--interleave 2"),
    ],
)
def test_a_graph_of_a_whole_step_has_no_stages(asked: dict[str, Any], said: str) -> None:
    words = f"{said}: the graph of small is that of a whole step; name a model of the zoo instead"
    with pytest.raises(FormatError, match=f"^{re.escape(words)}$"):
        parallelize(small_model(), "complete(8)", gpu="a100", **asked)


def test_what_parallelize_refuses_before_it_looks() -> None:
    with pytest.raises(FormatError, match=r"^fabrics: expected at least one$"):
        parallelize(small_model(), [], gpu="a100")
    words = "^--mixed: overlap over the whole model hides what no layer can; use --overlap layer$"
    with pytest.raises(FormatError, match=words):
        parallelize(small_model(), "complete(2)", gpu="a100", mixed=True, overlap="model")
