"""``treadle reproduce``."""

from __future__ import annotations

from treadle.cli.output import Output
from treadle.options.measuring import Reproduce
from treadle.render.reproduction import paper_figure_rows, reproduced_rows
from treadle.reproduction.paper_figures import EXHIBITS
from treadle.reproduction.reproduce import reproduce


def command(o: Reproduce) -> int:
    """Compute a table or figure of the papers anew and set it beside what is printed."""
    view = paper_figure_rows(EXHIBITS) if o.name is None else reproduced_rows(reproduce(o.name, full=o.full))
    Output.of(o).show(view)
    return 0
