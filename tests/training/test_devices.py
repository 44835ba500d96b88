"""Presets against the figures of data sheets, and devices of the user's own."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.training.devices import read_accelerator

OWN = 'name = "mine"\nmemory = "96GB"\nmemory_bandwidth = "4TB/s"\ntflops = {bf16 = 500, fp8 = 1000.5}\n'


def test_a_device_of_the_users_own() -> None:
    own = read_accelerator(OWN + 'source = "a slide"')
    assert (own.name, own.memory_bytes, own.memory_bytes_per_s) == ("mine", 96 * 2**30, 4e12)
    assert (own.peak("bf16"), own.peak("fp8"), own.source) == (5e14, 1.0005e15, "a slide")
    plain = read_accelerator(OWN.replace("mine", "m" * 41).replace("500", "999999999"))
    assert (plain.name, plain.source, plain.peak("bf16")) == ("m" * 40, "", 999_999_999e12)


def test_texts_longer_than_a_device_needs() -> None:
    longest = OWN + "#\n" * ((100_000 - len(OWN)) // 2)
    assert read_accelerator(longest) == read_accelerator(OWN)
    with pytest.raises(FormatError, match="expected at most 100000 characters, found 100001"):
        read_accelerator(longest + "#\n")
