"""What plans were made for, as their files hold it: fabrics, devices, sizes, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from treadle.errors import FormatError
from treadle.parallelism.plan.plan_setting import PlanSetting, read_setting, setting_to_json, stored_fabric
from treadle.topologies import parse
from treadle.training.devices import ACCELERATORS, ELEMENT_BYTES, Accelerator


def refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(FormatError) as caught:
        make()
    assert str(caught.value) == words


OWN = Accelerator("own", MappingProxyType({"bf16": 5e14, "fp32": 1e14}), 96 * 10**9, 4e12, "guessed")


def test_settings_are_kept_as_little_as_can_be() -> None:
    h100 = ACCELERATORS["h100"]
    assert setting_to_json(PlanSetting(None, h100)) == {"gpu": "h100"}
    assert setting_to_json(PlanSetting("ring(8)", OWN, 5, 7)) == {
        "gpu": {
            "name": "own",
            "peak_flops": {"bf16": 5e14, "fp32": 1e14},
            "memory_bytes": 96 * 10**9,
            "memory_bytes_per_s": 4e12,
            "source": "guessed",
        },
        "fabric": "ring(8)",
        "tokens": 5,
        "sequence": 7,
    }
    # a device of our name that is not ours is written out
    assert setting_to_json(PlanSetting(None, replace(OWN, name="h100")))["gpu"] != "h100"
    found = read_setting(setting_to_json(PlanSetting("ring(8)", OWN, 5, 7)), "here")
    assert found == PlanSetting("ring(8)", OWN, 5, 7)
    assert (found.tokens, found.sequence) == (5, 7)
    names = [PlanSetting(fabric, h100).fabric_name for fabric in ("ring(8)", parse("ring:4"), None)]
    assert names == ["ring(8)", "ring(4)", ""]


def test_fabrics_that_no_expression_makes_are_kept_whole() -> None:
    ring = parse("ring:8")
    assert stored_fabric(ring) == "ring(8)"
    for name in ("my ring", "ring(7)", "ring(0)", "nothing(8)"):
        renamed = replace(ring, name=name)
        assert stored_fabric(renamed) is renamed
    longer = replace(ring, latencies_ns=np.arange(ring.n_links))
    assert stored_fabric(longer) is longer


SETTING: dict[str, Any] = {
    "gpu": {
        "name": "own",
        "peak_flops": {"bf16": 5},
        "memory_bytes": 9,
        "memory_bytes_per_s": 4,
        "source": "s",
    },
    "fabric": "ring(8)",
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": 2**50 - 1}, ""),
        ({"tokens": 1, "sequence": 1}, ""),
        ({"tokens": 2**50}, "here: tokens: expected 1 to 1125899906842623, found 1125899906842624"),
        ({"sequence": 0}, "here: sequence: expected 1 to 1125899906842623, found 0"),
        ({"sequence": 1.0}, "here: sequence: expected an integer, found 1.0"),
        ({"tokens": "1"}, 'here: tokens: expected an integer, found "1"'),
        ({"gpu": "k80"}, f"here, gpu: 'k80' is none of {', '.join(ACCELERATORS)}"),
        ({"gpu": 5}, "here: gpu: expected a string or an object, found 5"),
        ({"fabric": 5}, "here, fabric: expected a string, found 5"),
        ({"fabric": "x"}, "here, fabric: 'x': expected a call of the catalogue, or a fabric"),
        ({"fabric": "ring(" + "1" * 994 + ")"}, ""),
        (
            {"fabric": "ring(" + "1" * 995 + ")"},
            f"here, fabric: 'ring({'1' * 35}': expected a call of the catalogue, or a fabric",
        ),
        ({"more": 1}, 'here: unknown key "more"; known are fabric, gpu, sequence, tokens'),
    ],
)
def test_settings_of_files_are_read_or_refused(change: dict[str, object], words: str) -> None:
    if words:
        refused(lambda: read_setting({**SETTING, **change}, "here"), words)
    else:
        read_setting({**SETTING, **change}, "here")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"peak_flops": {}}, "here: gpu.peak_flops: expected some of {precisions}"),
        ({"peak_flops": {"bf17": 1}}, "here: gpu.peak_flops: expected some of {precisions}"),
        ({"peak_flops": {"bf16": 0}}, 'here: gpu.peak_flops["bf16"]: expected a number above 0, found 0'),
        (
            {"peak_flops": {"bf16": 1e24}},
            'here: gpu.peak_flops["bf16"]: expected a number above 0, found 1e+24',
        ),
        ({"memory_bytes": 1.5}, "here: gpu.memory_bytes: expected an integer, found 1.5"),
        ({"memory_bytes": 0}, "here: gpu.memory_bytes: expected 1 to 9223372036854775807, found 0"),
        ({"memory_bytes_per_s": True}, "here: gpu.memory_bytes_per_s: expected a number above 0, found true"),
        ({"memory_bytes_per_s": "4"}, 'here: gpu.memory_bytes_per_s: expected a number above 0, found "4"'),
        ({"name": " "}, "here: gpu: name and source: expected lines of at most 1000 characters"),
        ({"source": "a\nb"}, "here: gpu: name and source: expected lines of at most 1000 characters"),
        ({"source": "s" * 998}, "here: gpu: name and source: expected lines of at most 1000 characters"),
        ({"source": "s" * 997}, ""),
        ({"memory_bytes_per_s": 9.9e23}, ""),
    ],
)
def test_devices_of_files_are_read_or_refused(change: dict[str, object], words: str) -> None:
    data = {**SETTING, "gpu": {**SETTING["gpu"], **change}}
    if words:
        refused(lambda: read_setting(data, "here"), words.format(precisions=", ".join(ELEMENT_BYTES)))
    else:
        assert read_setting(data, "here").gpu.name == "own"


def test_a_device_of_a_file_has_its_figures() -> None:
    assert read_setting(SETTING, "here").gpu == Accelerator(
        "own", MappingProxyType({"bf16": 5.0}), 9, 4.0, "s"
    )
