"""What commands about steps of training take alike."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.cli.settings.configuration import chosen_settings
from treadle.errors import FormatError

DeviceOption = Annotated[
    str, typer.Option("--gpu", help="a100, h100, mi300x, ..., or a TOML file.", metavar="GPU")
]
EfficiencyOption = Annotated[
    float | None,
    typer.Option("--efficiency", help="Share of the GPU's peak that products reach.", metavar="X"),
]
AlphaOption = Annotated[
    str | None,
    typer.Option("--alpha", help="Latency of every message, in place of a cost model.", metavar="TIME"),
]
ForwardOption = Annotated[bool, typer.Option("--forward", help="Ranks of other groups pass data on.")]


def named_fabrics(asked: list[str] | None, several: str) -> list[str]:
    """The fabrics that were asked for, or the one of the settings.

    Parameters
    ----------
    asked : list of str, optional
    several : str
        What becomes of several, to end the refusal with.

    Raises
    ------
    FormatError
        Without any.
    """
    if asked:
        return asked
    chosen = chosen_settings().get("fabric")
    if chosen is None:
        raise FormatError(f"--fabric FABRIC is missing: what to train on; again for several{several}")
    return [chosen.value]
