"""What commands about steps of training take alike."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.cli.settings.configuration import chosen_settings
from treadle.errors import FormatError


def named_fabrics(asked: Sequence[str], several: str) -> Sequence[str]:
    """The fabrics that were asked for, or the one of the settings.

    Parameters
    ----------
    asked : sequence of str
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
