"""Draw a fabric or a plan."""

from __future__ import annotations

from treadle.checking import checked, left_alone
from treadle.drawing.draw import FORMATS, painting_of
from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import FabricLike, PlanLike
from treadle.spelling import unknown
from treadle.viz.raster import raster
from treadle.viz.svg import svg


@checked(subject=left_alone)
def draw(subject: FabricLike | PlanLike, *, show: str = "", file_format: str = "svg") -> bytes:
    """Draw a fabric or a plan.

    Parameters
    ----------
    subject : Topology, Plan, result, str or Path
        A fabric, or a plan or its file.
    show : str
        Of a plan: ``load`` (how busy links are; what plans show if nothing is said), ``cut`` (what proves the
        optimum), ``tree:RANK`` (how a rank's data spread, by its name or number). Of a fabric nothing.
    file_format : str
        svg, or with the extra ``plot`` png or pdf.

    Returns
    -------
    bytes
        Seed of the drawing's layout, which is deterministic.

    Raises
    ------
    FormatError
        For a format or a thing to show that there is not, and for what needs a plan.
    ScheduleError
        If the plan has no such thing.
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    MissingDependencyError
        For png and pdf, without matplotlib.

    Examples
    --------
    >>> import treadle
    >>> treadle.draw("ring:4")[:4]
    b'<svg'
    """
    if file_format not in FORMATS:
        raise FormatError(f"drawing: {unknown('format', file_format, FORMATS)}")
    painting = painting_of(subject, show)
    return svg(painting).encode() if file_format == "svg" else raster(painting, file_format)
