"""Presets against the figures of data sheets, and devices of the user's own."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError, TreadleError
from treadle.training.devices import ACCELERATORS, ELEMENT_BYTES, accelerator, read_accelerator

DATA_SHEETS = {
    # dense bf16 (fp16 for v100) TFLOP/s, GB, GB/s
    "v100": (125, 32, 900),
    "a100": (312, 80, 2039),
    "a100-40gb": (312, 40, 1555),
    "h100": (989.4, 80, 3350),
    "h800": (989.4, 80, 3350),
    "h200": (989.4, 141, 4800),
    "b200": (2250, 180, 7700),
    "gb200": (2500, 186, 8000),
    "mi250": (362.1 / 2, 128 / 2, 3276.8 / 2),
    "mi250x": (383 / 2, 128 / 2, 3276.8 / 2),
    "mi300x": (1307.4, 192, 5300),
    "mi325x": (1307.4, 256, 6000),
}

FP32 = {
    "v100": 15.7, "a100": 19.5, "a100-40gb": 19.5, "h100": 67, "h800": 67, "h200": 67, "b200": 75,
    "gb200": 80, "mi250": 90.5 / 2, "mi250x": 95.7 / 2, "mi300x": 163.4, "mi325x": 163.4,
}  # fmt: skip
"""TFLOP/s, of matrix units where they have it."""


@pytest.mark.parametrize("name", sorted(ACCELERATORS))
def test_presets_are_those_of_data_sheets(name: str) -> None:
    preset = accelerator(name)
    assert preset.peak("fp32") == pytest.approx(1e12 * FP32[name], rel=2e-3)
    assert ("bf16" in preset.peak_flops) == (name != "v100")
    assert preset.peak_flops.get("bf16", preset.peak("fp16")) == preset.peak("fp16")
    tflops, memory, bandwidth = DATA_SHEETS[name]
    assert preset.peak("fp16") == pytest.approx(1e12 * tflops, rel=1e-3)
    assert preset.memory_bytes == memory * 2**30
    assert preset.memory_bytes_per_s == pytest.approx(1e9 * bandwidth)
    assert preset.source
    assert set(preset.peak_flops) <= set(ELEMENT_BYTES)


@pytest.mark.parametrize("name", sorted(ACCELERATORS))
def test_half_the_width_is_twice_the_speed(name: str) -> None:
    """Of the matrix units, as makers build them; fp32 has units of its own."""
    peaks = accelerator(name).peak_flops
    for wide, narrow in (("tf32", "bf16"), ("bf16", "fp8")):
        if wide in peaks and narrow in peaks:
            assert peaks[narrow] / peaks[wide] == pytest.approx(2, rel=0.03)


def test_unknown_names_list_what_there_is() -> None:
    assert accelerator("A100 40GB") is ACCELERATORS["a100-40gb"]
    with pytest.raises(TreadleError, match=r"unknown GPU 'h1000'.*did you mean h100.*a TOML file"):
        accelerator("h1000")
    with pytest.raises(TreadleError, match="device v100 has no 'bf16' products; it has fp32, fp16"):
        accelerator("v100").peak("bf16")


OWN = 'name = "mine"\nmemory = "96GB"\nmemory_bandwidth = "4TB/s"\ntflops = {bf16 = 500, fp8 = 1000.5}\n'


def test_a_device_of_the_users_own() -> None:
    own = read_accelerator(OWN + 'source = "a slide"')
    assert (own.name, own.memory_bytes, own.memory_bytes_per_s) == ("mine", 96 * 2**30, 4e12)
    assert (own.peak("bf16"), own.peak("fp8"), own.source) == (5e14, 1.0005e15, "a slide")
    plain = read_accelerator(OWN.replace("mine", "m" * 41).replace("500", "999999999"))
    assert (plain.name, plain.source, plain.peak("bf16")) == ("m" * 40, "", 999_999_999e12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", r"not TOML: Invalid value \(at end of document\)"),
        ("[" * 5000, "line 1 is longer than 1000 characters"),
        ("#" * 200_000, "at most 100000 characters"),
        (OWN + "cores = 3", 'unknown key "cores"; known are memory, memory_bandwidth, name, source, tflops'),
        (OWN.replace('name = "mine"', ""), "key 'name' is missing"),
        (OWN.replace('"96GB"', "96"), "memory: expected a text in quotes, found 96"),
        (OWN.replace("mine", "a\\u001b[31mb"), "printable characters"),
        (OWN.replace("mine", ""), "printable characters"),
        (OWN.replace("96GB", "0GB"), "memory '0GB': expected more than 0"),
        (OWN.replace("96GB", "96"), "has no unit"),
        (OWN.replace("4TB/s", "4TB"), "unknown unit"),
        (OWN.replace("bf16", "bf17"), "unknown precision 'bf17'"),
        (OWN.replace("500", "0"), r'tflops\["bf16"\]: expected a positive number less than 10\*\*9, found 0'),
        (OWN.replace("500", "1e9"), r'tflops\["bf16"\]: expected a positive number less than'),
        (OWN.replace("{bf16 = 500, fp8 = 1000.5}", "{}"), "tflops: expected a table such as"),
        (OWN + 'source = "a\\u0007b"', "printable characters on one line"),
        (OWN + "source = 3", "source: expected a text in quotes, found 3"),
        (
            OWN.replace("500", "-1"),
            r'tflops\["bf16"\]: expected a positive number less than 10\*\*9, found -1',
        ),
        (
            OWN.replace("500", "inf"),
            r'tflops\["bf16"\]: expected a positive number less than 10\*\*9, found Infinity',
        ),
        (
            OWN.replace("500", "true"),
            r'tflops\["bf16"\]: expected a positive number less than 10\*\*9, found true',
        ),
        (
            OWN.replace("500", "1" + "0" * 300),
            r'tflops\["bf16"\]: expected a positive number less than 10\*\*9',
        ),
        (OWN.replace("{bf16 = 500, fp8 = 1000.5}", "312"), "tflops: expected a table"),
    ],
)
def test_devices_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as error:
        read_accelerator(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_texts_longer_than_a_device_needs() -> None:
    longest = OWN + "#\n" * ((100_000 - len(OWN)) // 2)
    assert read_accelerator(longest) == read_accelerator(OWN)
    with pytest.raises(FormatError, match="expected at most 100000 characters, found 100001"):
        read_accelerator(longest + "#\n")
