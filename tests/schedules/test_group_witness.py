"""Lengths that bound groups at once: against all arborescences, networkx and the linear program."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import FormatError
from treadle.schedules.certificate import certificate_from_json
from treadle.schedules.group_certificate import MAX_LENGTHS, GroupDualCertificate


@pytest.mark.parametrize(
    "change",
    [
        {"values": ["0", "1/0"]},
        {"values": ["0", 1]},
        {"values": "0"},
        {"values": ["0"]},
        {"run_value": [0, 2]},
        {"run_value": [0, -1]},
        {"run_value": [0, True]},
        {"run_value": [0, 1.0]},
        {"run_value": [0]},
        {"run_value": None},
        {"run_links": [1, 0]},
        {"run_links": [1, -1]},
        {"run_links": [1, MAX_LENGTHS]},
        {"run_links": [1, 10**30]},
        {"run_links": [1, "1"]},
        {"run_links": [[1], 1]},
        {"more": 1},
    ],
)
def test_malformed_files_are_refused(change: dict[str, object]) -> None:
    value = {"kind": "group-lengths", "values": ["0", "1/3"], "run_value": [0, 1], "run_links": [1, 2]}
    third = Fraction(1, 3)
    assert certificate_from_json(value) == GroupDualCertificate((Fraction(0), third, third))
    with pytest.raises(FormatError) as caught:
        certificate_from_json({**value, **change})
    assert "\n" not in str(caught.value)
