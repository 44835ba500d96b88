"""The wheel in an environment that has nothing else: what a user gets."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest

from child_processes import finished


def run(*argv: str | Path, cwd: Path) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = finished(argv, cwd=cwd, environment=clean)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_wheel_works_in_a_clean_environment(repository: Path, tmp_path: Path) -> None:
    wheels = sorted((repository / "dist").glob("treadle-*.whl"))
    if not wheels:
        pytest.skip("no wheel in dist/; `make wheel` builds it, and `make test` does so first")
    version = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    home = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=tmp_path)
    run(
        sys.executable, "-m", "pip", "--python", home / "bin" / "python",
        "install", "--quiet", "--disable-pip-version-check", wheels[-1], cwd=tmp_path,
    )  # fmt: skip
    treadle = home / "bin" / "treadle"
    assert "compare" in run(treadle, "--help", cwd=tmp_path)
    assert run(treadle, "--version", cwd=tmp_path).startswith(f"treadle {version}")
    assert "optimal" in run(treadle, "solve", "ring:4", "allreduce", "-o", "ring.plan", cwd=tmp_path)
    assert "every element is correct" in run(treadle, "run", "ring.plan", "--size", "1K", cwd=tmp_path)
    run(treadle, "lower", "ring.plan", "-o", "ring.xml", cwd=tmp_path)
    assert (tmp_path / "ring.xml").exists()
