"""``treadle report``, and pictures of fabrics and plans."""

from __future__ import annotations

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.fabric_arguments import fabric_at
from treadle.cli.measuring.solved_or_read import solved_or_read
from treadle.cli.output import COMMAND, Output, ProgressLine, warn
from treadle.cli.plan_file import read_plan
from treadle.cli.status import FAILED
from treadle.errors import FormatError
from treadle.options.drawing import Report
from treadle.options.rows import reject
from treadle.options.shared import Fabric, ReadOrSolved
from treadle.render.rows import row
from treadle.topologies.topology import Topology

_OF_SHARDING = ("fabric", "gpu", "model", "tokens", "sequence")
_PICTURES = (".svg", ".png", ".pdf")


def command(o: Report) -> int:
    """Write a page about a plan or, where -o names a picture, a drawing."""
    output = Output.of(o)
    if o.output is not None and o.output.suffix.lower() in _PICTURES:
        return _draw(output, o)
    if o.output is None or o.output.suffix.lower() not in (".html", ".htm"):
        found = "is missing" if o.output is None else f"{str(o.output)[:200]!r}"
        raise FormatError(
            f"-o FILE {found}: expected a name that ends in .html, or for a drawing in .svg, .png or .pdf"
        )
    of_drawings = ("show", "algorithm", *(name for name in Fabric.rows if name != "gpu"))
    reject(o, of_drawings, "valid only for drawings; use -o FILE with .svg, .png or .pdf")
    with ProgressLine(quiet=output.is_silent) as progress:
        if planning.is_parallel_plan(o.plan):
            if o.others:
                raise FormatError("shards a model: no other plans stand beside it", source=str(o.plan))
            page = planning.report_parallel_plan(
                o.plan,
                o.fabric,
                gpu=o.gpu,
                model=o.model,
                tokens=o.tokens,
                sequence=o.sequence,
                progress=progress,
            )
        else:
            plans = [read_plan(path, o.max_memory) for path in (o.plan, *o.others)]
            reject(o, _OF_SHARDING, "valid only for plans that parallelize wrote (JSON); leave it out")
            try:
                page = planning.report(plans[0], plans[1:], size=o.size, progress=progress)
            except planning.UnverifiedPlanError as error:
                warn(f"report: {error}")
                return FAILED
    data = page.encode()
    write_bytes(o.output, data)
    text = f"{o.output}, {len(data):,} bytes"
    output.show([row("report", text, page=str(o.output), bytes=len(data))])
    return 0


def _draw(output: Output, o: Report) -> int:
    """Draw a fabric, or what a plan does on it: loads, the bottleneck, a tree."""
    COMMAND.set("draw")
    reject(o, ("size", "fabric", "model", "tokens", "sequence"), "not supported for drawings; leave it out")
    if len(o.others) > 1:
        raise FormatError(f"drawing: expected at most a COLLECTIVE after {o.plan}; left over: {o.others[1]}")
    collective = o.others[0] if o.others else None
    assert o.output is not None
    with fabric_at(o, "plan"), ProgressLine(quiet=output.is_silent) as progress:
        subject = o.plan
        if collective is not None or not isinstance(subject, Topology):
            asked = {"collective": collective, "algorithm": o.algorithm, "max_memory": o.max_memory}
            solving = ReadOrSolved({"plan": subject, **asked}, [name for name, one in asked.items() if one])
            subject = solved_or_read(solving, command="draw", progress=progress).plan
        try:
            picture = planning.draw(subject, show=o.show, file_format=o.output.suffix[1:].lower())
        except planning.UnverifiedPlanError as error:
            warn(f"draw: {error}")
            return FAILED
        write_bytes(o.output, picture)
        text = f"{o.output}, {len(picture):,} bytes"
        output.show([row("drawing", text, picture=str(o.output), bytes=len(picture))])
    return 0
