"""Route files: what their writers, readers and judges are."""

from __future__ import annotations

from treadle.formats.format import Format
from treadle.formats.verdict import Check

FORMATS = tuple(
    Format(
        name=f"routes-{form}",
        title=f"routes as {form.upper()}",
        extension=f".{form}",
        begins=begins,
        check=Check.COMPARED,
        options=frozenset(),
        write=f"treadle.formats.routes.writer:write_{form}",
        read=f"treadle.formats.routes.reader:read_{form}",
        judge=f"treadle.formats.routes.interpreter:interpret_{form}",
        load="treadle.formats.routes.loading:load",
        holds_routes=True,
        files=f"one {form.upper()}",
        readers="tools that program adapters",
        collectives="plans of all-to-all with routes",
        sizes="all",
    )
    for form, begins in (
        ("json", r'\{\s*"treadle":\s*"routes"'),
        ("csv", "source,target,source_node,target_node,"),
        ("xml", "<routes"),
    )
)
