"""What may be asked of a search for a plan: the values that words make, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest
from tests.parallelism.plan.small_models import small_model

from treadle import parallelize
from treadle.api import execute_plan as executing
from treadle.errors import FormatError, MemoryLimitError
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.graph.model_graph import model_to_json
from treadle.parallelism.search.minimax import Overlap
from treadle.parallelism.searching.parallel_options import (
    as_count,
    as_overlap,
    parallel_request,
    read_constraints,
)
from treadle.parallelism.searching.plan_search import STAGES
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.devices import Accelerator
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.zoo import zoo_model
from treadle.training.prices.efficiency_presets import roofline_times

KINDS = ("bf16", "fp16", "fp32")


def device(*precisions: str) -> Accelerator:
    peaks = {one: 1e12 * (at + 1) for at, one in enumerate(precisions)}
    return Accelerator("own", MappingProxyType(peaks), 3 * 2**20, 1e9, "")


def test_what_nobody_asked_for() -> None:
    found = parallel_request(device("fp32", "bf16"), None, {})
    assert found.times == roofline_times(found.device, "bf16")
    assert (found.memory_bytes, found.gap, found.overlap) == (3 * 2**20, 0.01, Overlap.LAYER)
    assert (found.tokens, found.sequence, dict(found.constraints)) == (None, None, {})


def test_what_was_asked_for() -> None:
    found = parallel_request(
        device("bf16"),
        "3K",
        {
            "efficiency": 0.25,
            "memory_efficiency": 0.75,
            "memory_bytes": 1,
            "sequence": "7",
            "gap": 0,
            "overlap": "Model",
            "constraints": {"wq": "k:1"},
        },
    )
    assert (found.times.efficiency, found.times.memory_efficiency) == (0.25, 0.75)
    assert (found.memory_bytes, found.gap, found.overlap) == (1, 0, Overlap.MODEL)
    assert (found.tokens, found.sequence, dict(found.constraints)) == (3072, 7, {"wq": "k:1"})


@pytest.mark.parametrize(
    ("there", "taken"), [(KINDS, "bf16"), (("fp32", "fp16"), "fp16"), (("fp32",), "fp32")]
)
def test_the_precision_is_the_first_that_the_device_has(there: tuple[str, ...], taken: str) -> None:
    assert parallel_request(device(*there), 1, {}).times.precision == taken


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"memory_bytes": 0}, "memory 0 bytes: expected at least 1"),
        ({"gap": 1}, "gap 1: expected a share of the time, at least 0 and below 1"),
        ({"gap": -0.1}, "gap -0.1: expected a share of the time, at least 0 and below 1"),
        ({"overlap": "layers of it"}, "unknown overlap 'layers of it'"),
    ],
)
def test_requests_out_of_range_are_refused(asked: Any, message: str) -> None:
    with pytest.raises(FormatError, match=f"^{re.escape(message)}"):
        parallel_request(device("bf16"), None, asked)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (1, 1),
        ("1", 1),
        (" 12 ", 12),
        ("3k", 3 * 2**10),
        ("5 M", 5 * 2**20),
        ("7G", 7 * 2**30),
        ("1024G", 2**40),
        (2**40, 2**40),
    ],
)
def test_counts_of_tokens(text: int | str, count: int) -> None:
    assert as_count(text, "tokens") == count


@pytest.mark.parametrize(
    "text", [0, "0", "-1", "1.5K", "01", "K", "1T", "", "1KK", "1025G", 2**40 + 1, "1" * 20]
)
def test_what_is_no_count_of_tokens(text: int | str) -> None:
    message = (
        f"--sequence {str(text)!r}: expected a number of tokens, such as 131072 or 1M "
        "(K, M and G are powers of 1024)"
    )
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        as_count(text, "sequence")


def test_overlaps_are_known_by_name() -> None:
    assert [as_overlap(word) for word in ("none", "LAYER", "model")] == [
        Overlap.NONE,
        Overlap.LAYER,
        Overlap.MODEL,
    ]
    with pytest.raises(FormatError, match=r"unknown overlap 'laier'.*layer"):
        as_overlap("laier")


def test_pins_are_read_at_their_first_sign() -> None:
    assert read_constraints([]) == {}
    assert read_constraints([" wq = k:1/h:0 ", "w=a=b"]) == {"wq": "k:1/h:0", "w": "a=b"}
    with pytest.raises(FormatError, match=r"^--pin: 'wq' appears twice$"):
        read_constraints(["wq=whole", "wv=whole", "wq=k:1"])


@pytest.mark.parametrize("text", ["wq", "=whole", "wq=", " = "])
def test_pins_need_a_tensor_and_a_state(text: str) -> None:
    with pytest.raises(FormatError, match=f"^--pin {text!r}: expected TENSOR=STATE, e.g. wq=k:1/h:0"):
        read_constraints([text])


def test_a_graph_is_taken_with_its_own_tokens() -> None:
    graph = small_model()
    for tokens in (None, 16):
        notes: list[str] = []
        assert as_model_graph(graph, tokens=tokens, sequence=None, notes=notes) == (graph, None)
        assert notes == []
    unknown = replace(graph, tokens=0)
    assert as_model_graph(unknown, tokens=5, sequence=None, notes=[], micro_batches=1) == (unknown, None)


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


def test_a_file_says_at_its_beginning_that_it_is_a_graph(tmp_path: Path) -> None:
    """Within 4096 bytes; else it is taken for a config.json."""
    file, graph = tmp_path / "graph.json", small_model()
    text = json.dumps(model_to_json(graph))
    for blanks in (0, 4096 - text.index('"model graph"') - len('"model graph"')):
        file.write_text(" " * blanks + text)
        found, layers = as_model_graph(str(file), tokens=None, sequence=None, notes=[])
        assert (found.digest, layers) == (graph.digest, None)
    file.write_text(" " * (blanks + 1) + text)
    with pytest.raises(FormatError, match="model_type is missing"):
        as_model_graph(file, tokens=16, sequence=None, notes=[])
    file.write_text(text[:-1])
    with pytest.raises(FormatError, match=f"^{re.escape(str(file))}:1:[0-9]+: malformed JSON"):
        as_model_graph(file, tokens=None, sequence=None, notes=[])


def limited(model: TrainingModel, most: int) -> TrainingModel:
    return replace(model, max_tokens=most)


@pytest.mark.parametrize(
    ("most", "tokens", "asked", "own"),
    [
        (128, 512, None, 128),
        (512, 256, None, 256),
        (0, 8192, None, 4096),
        (0, 2048, None, 2048),
        (40_960, 2**20, None, 4096),
        (128, 96, 32, 32),
    ],
)
def test_the_sequences_of_a_model(most: int, tokens: int, asked: int | None, own: int) -> None:
    """What it was made for, at most 4096, and never more than there are tokens."""
    notes: list[str] = []
    model = limited(zoo_model("llama-3-8b"), most)
    graph, layers = as_model_graph(model, tokens=tokens, sequence=asked, notes=notes)
    assert layers is model
    assert graph.tokens == tokens
    sizes = {atom.name: atom.size for atom in graph.part("block").graph.atoms}
    assert (sizes[graph.batch], sizes[graph.sequence]) == (tokens // own, own)
    assert notes == ([] if asked else [f"sequences of {own} tokens (--sequence)"])


def test_micro_batches_share_the_sequences() -> None:
    model = limited(zoo_model("gpt2"), 64)
    graph, _ = as_model_graph(model, tokens=64 * 6, sequence=None, notes=[], micro_batches=3)
    assert graph.tokens == 64 * 2
    with pytest.raises(FormatError) as error:
        as_model_graph(model, tokens=64 * 5, sequence=None, notes=[], micro_batches=3)
    assert str(error.value) == (
        "--tokens 320: not a multiple of the sequence length of 64 tokens in 3 micro-batches; "
        "give a multiple of 192, or another --sequence"
    )
    with pytest.raises(FormatError) as error:
        as_model_graph(model, tokens=32, sequence=64, notes=[])
    assert str(error.value) == (
        "--tokens 32: not a multiple of the sequence length of 64 tokens; give a multiple of 64, or another "
        "--sequence"
    )


@pytest.mark.parametrize("mesh", [Mesh((4,), ("tp",)), Mesh((1, 4), (STAGES, "tp"))])
def test_without_stages_there_are_no_micro_batches(mesh: Mesh) -> None:
    for name in ("micro_batches", "interleave"):
        words = f"^--{name.replace('_', '-')} 1: expected stages, an axis pp of the mesh$"
        with pytest.raises(FormatError, match=words):
            parallelize(small_model(), "complete(4)", gpu="a100", mesh=mesh, **{name: 1})  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=r"^--micro-batches 0: expected at least 1$"):
        parallelize(small_model(), "complete(4)", gpu="a100", mesh=mesh, micro_batches=0)


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


def test_even_prices_differ_by_kind_alone() -> None:
    """10 GB/s and a microsecond; an allreduce is two passes. Axes of one rank have no traffic."""
    costs = executing._even_costs(Mesh((2, 1, 3), ("a", "b", "c")))
    assert {axes for _, axes in costs.rates} == {("a",), ("c",), ("a", "c")}
    for axes in (("a",), ("c",), ("a", "c")):
        for kind in CollectiveKind:
            passes = 2 if kind is CollectiveKind.ALLREDUCE else 1
            assert costs.time_s(kind, axes, 10**10) == pytest.approx(passes + 1e-6)
    assert costs.summary == "even prices"


@pytest.mark.parametrize("missing", [0, 1])
def test_ranks_that_do_not_fit_into_the_machine(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three blocks of two matrices of 8 x 16 elements of 2 bytes and a vector of 8; six ranks of 1 MiB."""
    whole = 3 * 2 * 8 * 16 * 2 + 8 * 2
    least = 6 * 2**20 + 2 * whole
    monkeypatch.setattr(executing, "available_bytes", lambda: least - missing)
    task = SimpleNamespace(
        plan=SimpleNamespace(mesh=Mesh((2, 3), ("a", "b"))), model=small_model(), makes=None
    )
    prediction = SimpleNamespace(peak_bytes=2**20)
    if not missing:
        executing._check_memory(cast(Any, task), cast(Any, prediction))
        return
    with pytest.raises(MemoryLimitError) as error:
        executing._check_memory(cast(Any, task), cast(Any, prediction))
    assert str(error.value) == (
        "execution: 6 ranks of 1MB, besides parameters and gradients of 1.52KB, take 6MB at least; this "
        "machine has 6MB; make the module smaller (layers, batch), and plan for that"
    )


def test_zero_has_three_stages() -> None:
    with pytest.raises(FormatError, match=r"^--zero 3: expected 0, 1 or 2;"):
        parallel_request(device("bf16"), 1, {"zero": 3})
