"""Options common to the commands about training steps."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.cli.settings.configuration import chosen_settings
from treadle.errors import FormatError


def named_fabrics(asked: Sequence[str], several: str) -> Sequence[str]:
    """Return the given fabrics, or the one of the settings.

    Parameters
    ----------
    asked : sequence of str
    several : str
        End of the error message about several.

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
