"""How much longer computing and communicating take at once: measured stacks, and which one is taken when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

from treadle.errors import FormatError
from treadle.spelling import similarly_spelt, unknown


@dataclass(frozen=True)
class ContentionPreset:
    """A device with its software, and what overlap costs there.

    Parameters
    ----------
    name : str
    kappa : float
        While a device computes and communicates both take so many times as long: 1 to 2.
    devices : tuple of str
        For which it is taken where none is named.
    source : str
    """

    name: str
    kappa: float
    devices: tuple[str, ...]
    source: str


PRESETS: Mapping[str, ContentionPreset] = MappingProxyType(
    {
        one.name: one
        for one in (
            ContentionPreset(
                "llm-foundry-h100",
                1.5,
                ("h100", "h200", "h800", "b200", "gb200"),
                "fitted on MPT's FSDP steps on 8 to 64 GPUs: mean error 7.3%; 1 and 2 fit about as well",
            ),
            ContentionPreset(
                "llm-foundry-a100",
                1.5,
                ("a100", "a100-40gb", "v100"),
                "fitted on MPT's FSDP steps on 8 to 64 GPUs: mean error 7.2%; 1 and 2 fit about as well",
            ),
            ContentionPreset(
                "torchtitan-h100",
                1.0,
                (),
                "torchtitan's tables of December 2024, Llama-3 8B with FSDP2 on 8 to 128 H100: 1 predicts "
                "them within 2.8%, and 2 within 2.0%, so that 1 is a choice",
            ),
            ContentionPreset(
                "msccl-a100",
                2.0,
                (),
                "dissertation, figure 4.13: FSDP over MSCCL on 16 A100; its shares are those of no overlap",
            ),
            ContentionPreset(
                "free",
                1.0,
                (),
                "no stack: copy engines or NICs move everything, and memory bandwidth is no limit; as in the "
                "dissertation, figure 3.9",
            ),
            ContentionPreset("serial", 2.0, (), "no stack: computing and communicating at once gain nothing"),
        )
    }
)
"""By name."""


@dataclass(frozen=True)
class ContentionChoice:
    """What was taken, and why.

    Parameters
    ----------
    kappa : float
    words : str
        For reports.
    is_given : bool
        The user said so.
    """

    kappa: float
    words: str
    is_given: bool


def contention_of(asked: str | float | None, device: str) -> ContentionChoice:
    """What ``--contention`` says: a preset, a number from 1 to 2, or nothing.

    Parameters
    ----------
    asked : str or float, optional
        None: the preset of the device; of a device without one, both ends are told.
    device : str
        Name of the accelerator.

    Raises
    ------
    FormatError
        For what is neither.

    Examples
    --------
    >>> contention_of(None, "a100").kappa, contention_of("1.5", "a100").kappa
    (2.0, 1.5)
    """
    if asked is None:
        for one in PRESETS.values():
            if device in one.devices:
                nearest = "" if device in one.name else f", the nearest one measured for {device}"
                return ContentionChoice(one.kappa, f"{one.name}{nearest} ({one.source})", is_given=False)
        words = f"free: nothing was measured for {device}; --contention serial is the other end"
        return ContentionChoice(PRESETS["free"].kappa, words, is_given=False)
    known = similarly_spelt(str(asked), PRESETS)
    if known is not None:
        return ContentionChoice(PRESETS[known].kappa, f"{known} ({PRESETS[known].source})", is_given=True)
    try:
        kappa = float(asked)
    except ValueError:
        raise FormatError(f"{unknown('contention', str(asked), PRESETS)}, or a number from 1 to 2") from None
    if not (isfinite(kappa) and 1 <= kappa <= 2):
        raise FormatError(
            f"contention {asked}: expected a number from 1 (overlap is free) to 2 (it gains nothing)"
        )
    return ContentionChoice(kappa, "as given", is_given=True)
