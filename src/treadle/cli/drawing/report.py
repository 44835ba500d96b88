"""``treadle report``, and drawings of fabrics and plans."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.fabric_arguments import fabric_at
from treadle.cli.measuring.solved_or_read import solved_or_read
from treadle.cli.output import COMMAND, Output, ProgressLine
from treadle.cli.plan_file import read_plan
from treadle.errors import FormatError
from treadle.options.drawing import Report
from treadle.options.rows import reject
from treadle.options.shared import Fabric, ReadOrSolved
from treadle.render.rows import file_row
from treadle.topologies.topology import Topology

_OF_SHARDING = ("fabric", "gpu", "model", "tokens", "sequence")
_DRAWINGS = (".svg", ".png", ".pdf")


def command(o: Report) -> int:
    """Write an HTML report about a plan or, if -o names an image, a drawing."""
    output = Output.of(o)
    if o.output is not None and o.output.suffix.lower() in _DRAWINGS:
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
                raise FormatError("a sharding plan cannot be compared with other plans", source=str(o.plan))
            options = {name: getattr(o, name) for name in _OF_SHARDING}
            page = planning.report_parallel_plan(o.plan, options.pop("fabric"), progress=progress, **options)
        else:
            plans = [read_plan(path, o.max_memory) for path in (o.plan, *o.others)]
            reject(o, _OF_SHARDING, "valid only for plans that parallelize wrote (JSON); leave it out")
            page = planning.report(plans[0], plans[1:], size=o.size, progress=progress)
    _write(output, "report", o.output, page.encode(), "page")
    return 0


def _write(output: Output, label: str, path: Path, data: bytes, name: str) -> None:
    write_bytes(path, data)
    output.show([file_row(label, path, name, more=f", {len(data):,} bytes")], bytes=len(data))


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
            given = {"collective": collective, "algorithm": o.algorithm, "max_memory": o.max_memory}
            solving = ReadOrSolved({"plan": subject, **given}, [name for name, one in given.items() if one])
            subject = solved_or_read(solving, command="draw", progress=progress).plan
        drawing = planning.draw(subject, show=o.show, file_format=o.output.suffix[1:].lower())
        _write(output, "drawing", o.output, drawing, "picture")
    return 0
