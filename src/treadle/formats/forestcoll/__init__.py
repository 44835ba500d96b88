"""ForestColl's tree XML: what its writer, reader and judge are."""

from __future__ import annotations

from treadle.formats.format import Format
from treadle.formats.schedule_source import source_of
from treadle.formats.verdict import Check

FORMATS = (
    Format(
        name="forestcoll-xml",
        title="ForestColl's tree XML",
        extension=".xml",
        begins=r"(<\?xml[^>]*\?>\s*)?<Algo[\s>]",
        check=Check.EXECUTED,
        options=frozenset(),
        write="treadle.formats.forestcoll.writer:write",
        read="treadle.formats.forestcoll.reader:read",
        judge="treadle.formats.forestcoll.interpreter:interpret",
        load="treadle.formats.forestcoll.loading:load",
        files="one XML",
        readers="compilers of ForestColl's schedules",
        collectives="allgathers of trees",
        sizes="all",
    ),
)

SCHEDULES = (source_of(FORMATS[0], "treadle.formats.forestcoll.traffic:trees"),)
