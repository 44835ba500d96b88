"""Plot of a front of trees: throughput by height, a line for each number of trees per root."""

from __future__ import annotations

from treadle.schedulers.tree_front import TreeFront
from treadle.viz.matplotlib_plots import new_plot, plot_bytes


def plot_front(front: TreeFront, *, title: str = "", file_format: str = "png") -> bytes:
    """Plot throughput by height.

    Parameters
    ----------
    front : TreeFront
    title : str
    file_format : str
        png, svg or pdf.

    Raises
    ------
    ScheduleError
        If the format is none of these.
    MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> from treadle import planning
    >>> front = planning.tree_front(planning.make_problem("ring:4", "allgather"), trees=[1])
    >>> planning.plot_front(front)[1:4]
    b'PNG'
    """
    figure = new_plot(6.4, 4.0, file_format)
    axes = figure.add_subplot()
    axes.axhline(float(front.optimal_algbw) / 1e9, color="black", linewidth=0.8, label="optimum")
    for number in sorted({point.trees_per_root for point in front.points}):
        own = [point for point in front.points if point.trees_per_root == number]
        label = f"{number} tree{'s' if number > 1 else ''} per root"
        places = [point.height for point in own], [float(point.algbw) / 1e9 for point in own]
        axes.plot(*places, marker="o", label=label)
    proved = {point.height: float(point.most) / 1e9 for point in front.points if point.most is not None}
    if proved:
        axes.scatter(list(proved), list(proved.values()), marker="_", color="black", label="proved at most")
    axes.set_xlabel("height, hops from rank to rank")
    axes.set_ylabel("algbw, GB/s")
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.legend(fontsize="small")
    return plot_bytes(figure, file_format)
