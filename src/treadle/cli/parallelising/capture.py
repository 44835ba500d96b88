"""``treadle capture``."""

from __future__ import annotations

import json as json_text
from collections import Counter
from time import process_time

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine
from treadle.cli.quantities import counted
from treadle.cli.training.step_report import count_text
from treadle.options.parallelising import Capture
from treadle.planning import ModelGraph, ModelPart


def command(o: Capture) -> int:
    """Capture a model as a graph of operators, forward and backward, with tensors by dimensions."""
    output = Output.of(o)
    begin = process_time()
    with ProgressLine(quiet=output.is_silent):
        found = planning.capture(o.model, repeats=o.repeats, tokens=o.tokens, sequence=o.sequence)
    seconds = process_time() - begin
    _print(output, found, show=o.show)
    if o.output is not None:
        write_bytes(o.output, (json_text.dumps(planning.model_to_json(found)) + "\n").encode())
        output.line(f"graph       {o.output}")
    values = {**_values(found), "seconds": {"total": seconds}}
    if o.output is not None:
        values["graph"] = str(o.output)
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
