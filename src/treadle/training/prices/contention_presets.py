"""Slowdown of computation and communication that overlap: measured stacks, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

from treadle.errors import FormatError
from treadle.spelling import similarly_spelt, unknown


@dataclass(frozen=True)
class ContentionPreset:
    """The cost of overlap on a device with its software.

    Parameters
    ----------
    name : str
    kappa : float
        Factor by which computation and communication are slower while both run: 1 to 2.
    devices : tuple of str
        Devices whose default it is.
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
"""Presets by name."""


@dataclass(frozen=True)
class ContentionChoice:
    """A slowdown, its source for reports, and whether the user gave it."""

    kappa: float
    words: str
    is_given: bool


def contention_of(given: str | float | None, device: str) -> ContentionChoice:
    """Parse ``--contention``: a preset, a number from 1 to 2, or None for the preset of the device.

    Without a preset of the device, the choice is `free`, and its words name the other extreme.

    Raises
    ------
    FormatError
        For any other value.

    Examples
    --------
    >>> contention_of(None, "a100").kappa, contention_of("1.5", "a100").kappa
    (1.5, 1.5)
    """
    if given is None:
        for one in PRESETS.values():
            if device in one.devices:
                nearest = "" if device in one.name else f", the nearest one measured for {device}"
                return ContentionChoice(one.kappa, f"{one.name}{nearest} ({one.source})", is_given=False)
        words = f"free: nothing was measured for {device}; --contention serial is the other end"
        return ContentionChoice(PRESETS["free"].kappa, words, is_given=False)
    known = similarly_spelt(str(given), PRESETS)
    if known is not None:
        return ContentionChoice(PRESETS[known].kappa, f"{known} ({PRESETS[known].source})", is_given=True)
    try:
        kappa = float(given)
    except ValueError:
        raise FormatError(f"{unknown('contention', str(given), PRESETS)}, or a number from 1 to 2") from None
    if not (isfinite(kappa) and 1 <= kappa <= 2):
        raise FormatError(
            f"contention {given}: expected a number from 1 (overlap is free) to 2 (it gains nothing)"
        )
    return ContentionChoice(kappa, "as given", is_given=True)
