"""``treadle capture``."""

from __future__ import annotations

import json as json_text
from collections import Counter
from pathlib import Path
from time import process_time
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption
from treadle.cli.quantities import counted
from treadle.cli.training.step_report import count_text
from treadle.planning import ModelGraph, ModelPart


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="MODULE.py:make, which returns a torch module and its arguments (extra: torch; the file is "
            "run); or a name (llama-3-8b), or a Hugging Face config.json.",
        ),
    ],
    graph: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the graph as JSON.", metavar="FILE", writable=True),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="The module is a block that runs so many times; default: repeated layers are looked for.",
            metavar="N",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            help="Of a step, on all ranks together, as 1M; of a module its arguments tell.", metavar="N"
        ),
    ] = None,
    sequence: Annotated[
        str | None,
        typer.Option(help="Tokens of a sequence; default what the model was made for.", metavar="N"),
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print every operator: what it reads and makes, by letters.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Capture a model as a graph of operators, forward and backward, with tensors by dimensions."""
    output = Output(json, quiet)
    begin = process_time()
    with ProgressLine(quiet=output.is_silent):
        found = planning.capture(model, repeats=repeats, tokens=tokens, sequence=sequence)
    seconds = process_time() - begin
    _print(output, found, show=show)
    if graph is not None:
        write_bytes(graph, (json_text.dumps(planning.model_to_json(found)) + "\n").encode())
        output.line(f"graph       {graph}")
    values = {**_values(found), "seconds": {"total": seconds}}
    if graph is not None:
        values["graph"] = str(graph)
    output.result(values)
    return 0


def _print(output: Output, model: ModelGraph, *, show: bool) -> None:
    output.line(f"model       {model.name}: {count_text(model.parameters)} parameters")
    sizes = {atom.name: atom.size for part in model.parts for atom in part.graph.atoms}
    if model.sequence:
        words = f"{model.batch} = {sizes[model.batch]} samples of {model.sequence} = {sizes[model.sequence]}"
        output.line(f"step        {model.tokens} tokens: {words}")
    elif model.batch:
        output.line(f"step        {model.batch} = {model.tokens} samples")
    for tie in model.ties:
        output.line(f"shared      {tie.first[0]} {tie.first[1]} is {tie.second[0]} {tie.second[1]}")
    output.line()
    rows = [
        (
            part.name,
            str(part.repeats),
            count_text(part.parameter_elements),
            str(sum(kinds.values())),
            ", ".join(counted(count, kind.lower()) for kind, count in kinds.most_common()),
        )
        for part in model.parts
        if (kinds := _kinds(part)) is not None
    ]
    output.table(["part", "times", "parameters", "operators", "of which"], rows, least=["of which"])
    if show:
        for part in model.parts:
            output.line()
            output.line(f"{part.name}, {counted(part.repeats, 'time')}")
            for line in str(part.graph).splitlines():
                output.line(line)


def _kinds(part: ModelPart) -> Counter[str]:
    """Operators of a part by kind."""
    kinds = (node.kind.value for node in part.graph.nodes)
    return Counter(kind for kind in kinds if kind not in ("PLACEHOLDER", "OUTPUT"))


def _values(model: ModelGraph) -> dict[str, object]:
    return {
        "model": model.name,
        "parameters": model.parameters,
        "tokens": model.tokens,
        "batch_letter": model.batch,
        "sequence_letter": model.sequence,
        "parts": [
            {
                "name": part.name,
                "repeats": part.repeats,
                "parameters": part.parameter_elements,
                "operators": dict(_kinds(part)),
            }
            for part in model.parts
        ],
        "layers": model.layers,
        "shared_parameters": [
            {"first": f"{tie.first[0]} {tie.first[1]}", "second": f"{tie.second[0]} {tie.second[1]}"}
            for tie in model.ties
        ],
        "digest": model.digest,
    }
