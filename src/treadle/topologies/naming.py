"""Names of catalogue fabrics: the expression that makes them."""

from __future__ import annotations


def expression(function: str, *arguments: int, **changed: tuple[int, int]) -> str:
    """Catalogue expression for a fabric's name.

    Parameters
    ----------
    function : str
    *arguments : int
        Positional arguments, always shown.
    **changed : (value, default)
        Keyword arguments, shown where they differ; bandwidths and latencies with their unit.

    Examples
    --------
    >>> expression("ring", 4, bandwidth=(5, 1), latency=(0, 0))
    'ring(4, bandwidth="5B/s")'
    """
    words = [str(argument) for argument in arguments]
    for key, (value, default) in changed.items():
        if value != default:
            unit = "B/s" if key.endswith("bandwidth") else "ns" if key == "latency" else ""
            words.append(f'{key}="{value}{unit}"' if unit else f"{key}={value}")
    return f"{function}({', '.join(words)})"
