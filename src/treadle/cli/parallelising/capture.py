"""``treadle capture``."""

from __future__ import annotations

import json as json_text
from time import process_time

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine
from treadle.options.parallelising import Capture
from treadle.render.parallelism import capture_rows
from treadle.render.rows import file_row


def command(o: Capture) -> int:
    """Capture a model as a graph of operators, forward and backward, with tensors by dimensions."""
    output = Output.of(o)
    begin = process_time()
    with ProgressLine(quiet=output.is_silent):
        found = planning.capture(o.model, repeats=o.repeats, tokens=o.tokens, sequence=o.sequence)
    seconds = process_time() - begin
    if o.output is not None:
        write_bytes(o.output, (json_text.dumps(planning.model_to_json(found)) + "\n").encode())
    rows = [*capture_rows(found, show=o.show), file_row("graph", o.output, "graph")]
    output.show(rows, seconds={"total": seconds})
    return 0
