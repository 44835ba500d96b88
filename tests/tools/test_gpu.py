"""What is read of nvcc's words, and what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.gpu import NCCL_REGISTERS, faults, figures, main

from treadle.runtime.device.kernel_build import nccl_include

SAID = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN7treadle12lanes_kernelIfNS_3SumELb0EEEvNS_3JobEl' for 'sm_90'
ptxas info    : Function properties for _ZN7treadle12lanes_kernelIfNS_3SumELb0EEEvNS_3JobEl
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 87 registers, used 1 barriers
ptxas info    : Compiling entry function '_ZN7treadle12lanes_kernelIfNS_3SumELb1EEEvNS_3JobEl' for 'sm_90'
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers
"""


def test_registers_and_spills_are_read() -> None:
    simple, low_latency = figures(SAID)
    assert (simple.protocol, simple.registers, simple.spilled_bytes, simple.architecture) == (
        "Simple",
        87,
        0,
        "sm_90",
    )
    assert (low_latency.protocol, low_latency.registers, low_latency.spilled_bytes) == ("LL", 64, 28)
    with pytest.raises(ValueError, match="nvcc says nothing of the registers"):
        figures(SAID.replace("Used 64 registers", "Used some"))


def test_spills_and_too_many_registers_are_faults() -> None:
    (spilled,) = faults(figures(SAID))
    assert "28 bytes spilled" in spilled
    assert len(faults(figures(SAID.replace("Used 87", "Used 129")))) == 2


def test_lanes_over_nccl_may_take_more_registers_but_not_spill() -> None:
    assert len(faults(figures(SAID.replace("Used 87", "Used 255")), NCCL_REGISTERS)) == 1


def test_headers_of_nccl_are_found_or_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TREADLE_NCCL_INCLUDE", str(tmp_path))
    assert nccl_include() is None
    monkeypatch.setattr("tools.gpu.shutil.which", lambda name: name)
    monkeypatch.setattr(
        "tools.gpu._run", lambda _: SAID.replace("12 bytes spill stores, 16", "0 bytes spill stores, 0")
    )
    assert main() == 0
    assert "nccl_device.h is not there: SKIPPED" in capsys.readouterr().out
    (tmp_path / "nccl_device.h").touch()
    assert nccl_include() == tmp_path
    assert main() == 0
    assert "sm_90, over NCCL's windows: 2 kernels, 0 bytes spilled" in capsys.readouterr().out


def test_without_nvcc_kernels_are_skipped_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.gpu.shutil.which", lambda _: None)
    monkeypatch.setattr("tools.gpu._run", lambda _: "")
    assert main() == 0
    assert "nvcc is not on the PATH: SKIPPED" in capsys.readouterr().out
    monkeypatch.setattr("tools.gpu.shutil.which", lambda name: name)
    assert main() == 1
    assert "sm_80: no kernel was compiled" in capsys.readouterr().err
