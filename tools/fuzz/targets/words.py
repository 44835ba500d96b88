"""What is typed: catalogue expressions and command lines, right, wrong and hostile."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from samples.catalogue_samples import SAMPLES
from samples.strategies import damaged, damages
from treadle.cli.main import main
from treadle.errors import TreadleError
from treadle.schedules.plan_files.archive import save_plan
from treadle.topologies import parse

from ..finding import Case, require
from . import samples
from .target import Target
from .texts import one_line

_NAMES = sorted(SAMPLES)
_INTEGERS = st.one_of(
    st.integers(-2, 12),
    st.sampled_from([16, 31, 64, 100, 1000, 2**20, 2**20 + 1, 2**31, 2**63, 10**18, 10**100, -(10**30)]),
)
_WORDS = (
    '"25GB/s"',
    '"0-3"',
    '"box0.gpu0--box0.gpu1"',
    '"' + "9" * 30 + 'PB/s"',
    '"*"',
    '""',
    '"\\n"',
    "'\"'",
)
_KEYS = ("bandwidth", "latency", "n", "seed", "bidirectional", "nvls", "pcie", "gpus", "links", "degree")
_OTHERS = (
    "True",
    "None",
    "1e9",
    "-0",
    "0x7f",
    "1_000",
    "(1)",
    "*[1]",
    "lambda: 0",
    "f''",
    "__import__('os')",
)


@st.composite
def _expressions(draw: Any, depth: int = 3) -> str:
    """A call of the catalogue; its arguments are mostly of the right types."""
    arguments = []
    for _ in range(draw(st.integers(0, 3))):
        kinds = ["integer"] * 5 + ["word", "other"] + ["call"] * 2 * (depth > 0)
        match draw(st.sampled_from(kinds)):
            case "integer":
                value = str(draw(_INTEGERS))
            case "word":
                value = draw(st.sampled_from(_WORDS))
            case "call":
                value = draw(_expressions(depth - 1))
            case _:
                value = draw(st.sampled_from(_OTHERS))
        key = draw(st.sampled_from(_KEYS)) if draw(st.integers(0, 4)) == 0 else ""
        arguments.append(f"{key}={value}" if key else value)
    name, comma = (
        draw(st.sampled_from(_NAMES)),
        draw(st.sampled_from([",", ", ", ",,", " "] if depth < 0 else [","])),
    )
    return f"{name}({comma.join(arguments)})"


_SOUND = tuple(fabric.name for fabrics in SAMPLES.values() for fabric in fabrics)


@st.composite
def _expression_cases(draw: Any) -> Case:
    match draw(st.integers(0, 3)):
        case 0:
            return {"text": damaged(draw(st.sampled_from(_SOUND)), draw(damages()))}
        case 1:
            name = draw(st.sampled_from(_NAMES)).replace("_", draw(st.sampled_from("_-")))
            return {"text": f"{name}:{','.join(map(str, draw(st.lists(_INTEGERS, max_size=3))))}"}
        case _:
            return {"text": draw(_expressions())}


def _check_expression(case: Case) -> None:
    text = case["text"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        try:
            found = parse(text)
        except TreadleError as error:
            one_line(error)
            return
        if found.n_links < 10**5:
            require(parse(found.name) == found, "a fabric's name makes another", found.name)


_TOKENS = (
    *(
        "",
        "-",
        "--",
        "-1",
        "0",
        "1",
        "2",
        "7",
        "1000000",
        "9" * 25,
        "1e9",
        "nan",
        "inf",
        "x",
        "é",
        "\0",
        "\ud800",
    ),
    *(
        "1K",
        "1K..4M",
        "4M..1K",
        "1B..1P",
        "0B",
        "1..2",
        "..",
        "10us",
        "0us",
        "1h",
        "5min",
        "1ns",
        "25GB/s",
        "0GB/s",
    ),
    *("ring:3", "ring:4", "path(3)", "star:3", "dgx_a100_flat:1", "torus(2,2)", "ring(", "hypercube:2"),
    *("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall", "all", "ALLGATHER"),
    *(
        "a.plan",
        "b.plan",
        "c.plan",
        "t.xml",
        "t.json",
        "d.csv",
        "m.json",
        "w.toml",
        "absent",
        "out",
        "folder",
    ),
    *(
        "0-1",
        "0,1",
        "1-0",
        "0-99",
        "gpu*",
        "r*",
        "0,0",
        "2,1,1",
        "1,1,1,1",
        "0,0,0",
        "r0--r1",
        "r0->r1",
        "r0",
    ),
    *("forestcoll", "rs-ag", "ring", "bfb", "pipelined", "routes", "tsmcf", "multitree", "auto", "explicit"),
    *(
        "factored",
        "msccl-xml",
        "mscclpp-json",
        "cpu-xml",
        "nccl-graph",
        "chakra",
        "azure",
        "rccl",
        "fair",
        "fifo",
    ),
    *("in-process", "float16", "bfloat16", "int32", "max", "avg", "json", "store-and-forward", "per-message"),
)
_OPTIONS = (
    *(
        "-o",
        "--output",
        "--algorithm",
        "--trees",
        "--max-trees",
        "--exact",
        "--packer",
        "--form",
        "--explain",
    ),
    *(
        "--chunks",
        "--layers",
        "--max-routes",
        "--max-flows",
        "--for-size",
        "--alpha",
        "--trim",
        "--multicast",
    ),
    *(
        "--ranks",
        "--forward",
        "--root",
        "--weights",
        "--demands",
        "--format",
        "--seed",
        "--jobs",
        "--json",
        "-q",
    ),
    *(
        "--gap",
        "--topology",
        "--profile",
        "--link",
        "--node",
        "--to",
        "--in-place",
        "--channels",
        "--instances",
    ),
    *("--pipeline", "--name", "--size", "--consolidate", "--rank", "--dtype", "--redop", "--iterations"),
    *("--slices", "--latency-model", "--forwarding", "--sharing", "--reduction", "--trace", "--algorithms"),
    *(
        "--steps",
        "--degree",
        "--collective",
        "--fabric",
        "--fabric-output",
        "--bandwidth",
        "--pick",
        "--cabling",
    ),
    *("--nodes", "--workload", "--bidirectional", "--full", "--help", "--version", "--nonsense"),
)
_COMMANDS = (
    "solve ring:4 allgather -o out",
    "solve dgx_a100_flat:1 allreduce --json",
    "solve hypercube:2 alltoall --demands d.csv",
    "bound torus(2,2) allreduce",
    "bound ring:3 alltoall --gap 0.1",
    "verify a.plan",
    "verify a.plan --topology ring:4",
    "verify t.xml",
    "verify t.json --root 0",
    "repair a.plan --link r0--r1",
    "lower a.plan --to cpu-xml -o out",
    "lower b.plan --to msccl-xml --channels 2",
    "run a.plan --size 1K --iterations 1",
    "simulate a.plan --size 1K..4K --alpha 1us",
    "simulate ring:3 alltoall --size 1K",
    "compare ring:3 allgather",
    "routes ring:4 --layers 2",
    "design --nodes 8 --degree 2 --no-cache",
    "calibrate m.json --degree 2",
    "topology show ring:4",
    "topology list",
)


@st.composite
def _command_cases(draw: Any) -> Case:
    words = draw(st.sampled_from(_COMMANDS)).split()
    token = st.sampled_from(_TOKENS)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(1, max(1, len(words))))  # a case before may have taken the last word
        match draw(st.integers(0, 4)):
            case 0:
                words[at - 1 : at] = [draw(token)] if at > 1 else []
            case 1:
                words[at : at + 1] = []
            case 2:
                words[at:at] = [draw(st.sampled_from(_OPTIONS))]
            case 3:
                words[at:at] = [draw(st.sampled_from(_OPTIONS)), draw(token)]
            case _:
                words[at : at + 1] = [draw(token)]
    return {"words": words}


STATUS = (0, 1, 2, 3, 4, 5, 6)
ONE_LINE = (2, 3, 5, 6)
"""Exit statuses that are documented, and those that go with one line on stderr."""


def _prepare() -> None:
    """The files that command lines name, in the current folder."""
    for name, made in (("a", "two phases"), ("b", "trees"), ("c", "routes")):
        save_plan(f"{name}.plan", samples.plan(made))
    Path("t.xml").write_text(samples.text("msccl both"), encoding="utf-8")
    Path("t.json").write_text(samples.text("mscclpp both"), encoding="utf-8")
    Path("d.csv").write_text("0,2,0,0\n1,0,0,0\n0,0,0,0\n0,1,0,0\n", encoding="utf-8")
    Path("m.json").write_text(samples.input_text("measurements"), encoding="utf-8")
    Path("w.toml").write_text(samples.input_text("workload"), encoding="utf-8")
    Path("folder").mkdir()


def _check_command(case: Case) -> None:
    out, errors = io.StringIO(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        patch.dict(os.environ, TREADLE_CACHE_DIR=str(Path(folder) / "cache")),
    ):
        _prepare()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = main(case["words"])
    require(status in STATUS, "an exit status that is not documented", status)
    said = errors.getvalue()
    require("Traceback" not in said, "a traceback", said)
    if status in ONE_LINE and not said.startswith("Usage:"):
        lines = [line for line in said.splitlines() if line.startswith("treadle: ")]
        require(len(lines) == 1, "a failure without its line", (status, said))
        require(len(said) < 4000, "a long message", said)
    if status == 0 and "--json" in case["words"] and "--help" not in case["words"]:
        require(out.getvalue().startswith("{"), "--json without a JSON object", (out.getvalue()[:200]))


EXPRESSIONS = Target("expressions", _expression_cases(), _check_expression, 300)
COMMANDS = Target("commands", _command_cases(), _check_command, 40)
