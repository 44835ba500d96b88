"""The backend is found by its name alone where Treadle is installed."""

import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from child_processes import search_path

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from treadle.torch import registration  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
GROUP = "torch.backends"
PROGRAM = """
import sys
import torch
import torch.distributed as dist
early = [name for name in sys.modules if name.startswith("treadle.planning")]
import treadle.torch
mine = treadle.torch.Options(slice_bytes=2**14)
dist.init_process_group("treadle", store=dist.HashStore(), rank=0, world_size=1, pg_options=mine)
tensor = torch.arange(5)
dist.all_reduce(tensor)
groups = [dist.new_group([0]), dist.new_group([0], pg_options=treadle.torch.Options(slice_bytes=2**15))]
print(dist.get_backend(), tensor.tolist(), early, [group.settings.slice_bytes for group in groups])
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the entry points of pyproject.toml, as an installed wheel has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = project["entry-points"][GROUP]
    info = tmp_path / "treadle_as_installed-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: treadle-as-installed\nVersion: 1\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
    return tmp_path


def test_torch_finds_the_backend_without_an_import(installed: Path) -> None:
    """Nothing of ours is loaded before; groups have the whole job's options or their own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([search_path(), str(installed)]),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "treadle [0, 1, 2, 3, 4] [] [16384, 32768]"


def test_a_torch_without_gloo_is_still_imported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    with caplog.at_level(logging.DEBUG, "treadle.torch"):
        registration.autoload()
    assert "not registered: the backend treadle needs gloo" in caplog.text
