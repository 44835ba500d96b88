"""`make release`, or `python -m tools.release`: what others install, made from the last commit and tried.

An sdist, a wheel for CPython 3.11, one for 3.12 and later, both made from the unpacked sdist in a folder of
its own; then all of that again, which has to give the same bytes; each wheel installed for every CPython of
this machine that it is for, and tests of the unpacked sdist run on it; a bill of materials; checksums.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.lowest import LEFT_OUT

from . import build, checks, interpreters
from .interpreters import Interpreter
from .sbom import Build, bill, faults

ROOT = Path(__file__).resolve().parents[2]
NOT_FOR_WHEELS = LEFT_OUT | {"cyclonedx-python-lib", "playwright"}
"""Of the tools of tests: what no test of a wheel imports."""


def main(argv: list[str] | None = None) -> int:
    """Make the release, and say what was made and tried."""
    words = argparse.ArgumentParser(prog="make release", description=__doc__)
    words.add_argument("--to", type=Path, default=ROOT / "release", help="the folder, made anew")
    words.add_argument("--once", action="store_true", help="do not build a second time to compare")
    words.add_argument("tests", nargs="*", help="tests of the sdist that every wheel has to pass")
    asked = words.parse_args(argv)
    os.umask(0o022)
    try:
        with tempfile.TemporaryDirectory(prefix="treadle-release-") as scratch:
            return _release(asked, Path(scratch))
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"release: {error}\n{getattr(error, 'stderr', '') or ''}")
        return 1


def _release(asked: argparse.Namespace, scratch: Path) -> int:
    version, found = checks.named_version(ROOT), interpreters.interpreters()
    builders = interpreters.builders(found)
    if build.git(ROOT, "status", "--porcelain"):
        raise ValueError("there are changes that are not committed: a release is made from a commit")
    commit = build.git(ROOT, "rev-parse", "HEAD")
    commit_time = int(build.git(ROOT, "show", "--no-patch", "--format=%ct", commit))
    target = _made(commit, commit_time, builders, scratch / "first")
    if not asked.once:
        different = checks.differences(target, _made(commit, commit_time, builders, scratch / "second"))
        if different:
            raise ValueError(f"built twice, not the same bytes: {', '.join(different)}")
        _say("built twice, in two folders: the same bytes")
    files = sorted(target.iterdir())
    checks.check_packages(files)
    _try_all(target, found, asked.tests, scratch)
    text = bill(checks.project(ROOT), files, Build(commit, commit_time, _compiler(), _tools()))
    if faults(text):
        raise ValueError(f"the bill of materials: {faults(text)}")
    (target / f"treadle-{version}.cdx.json").write_text(text, encoding="utf-8")
    (target / checks.CHECKSUMS).write_text(checks.checksums(target.iterdir()), encoding="utf-8")
    shutil.rmtree(asked.to, ignore_errors=True)
    shutil.copytree(target, asked.to)
    _say((asked.to / checks.CHECKSUMS).read_text(encoding="utf-8"))
    _say(f"{asked.to}: Treadle {version}, {commit}")
    return 0


def _made(commit: str, commit_time: int, builders: tuple[Interpreter, ...], folder: Path) -> Path:
    """Sdist and wheels of a commit, in a folder of that folder."""
    target, tree = folder / "files", build.exported(ROOT, commit, folder / "commit")
    target.mkdir()
    sdist = build.build_sdist(tree, target, build.build_environment(commit_time, tree))
    shutil.rmtree(tree)  # nothing but the sdist is left to build from
    for one in builders:
        unpacked = build.unpacked(sdist, folder / f"wheel-{one.minor}")
        told = build.build_environment(commit_time, unpacked)
        _say(f"{one.name}: {build.build_wheel(unpacked, one, target, told).name}")
    return target


def _try_all(target: Path, found: dict[int, Interpreter], tests: list[str], scratch: Path) -> None:
    """Every wheel in a new environment of every CPython that it is for, with the tests of the sdist."""
    (sdist,) = target.glob("*.tar.gz")
    tree = build.unpacked(sdist, scratch / "tests")
    requirements = [
        line
        for line in checks.project(ROOT)["dependency-groups"]["test"]
        if line.split(">=")[0] not in NOT_FOR_WHEELS
    ]
    for minor in interpreters.MINORS:
        if minor not in found:
            _say(f"3.{minor}: SKIPPED, not on PATH and not among pyenv's")
            continue
        (wheel,) = [one for one in target.glob("*.whl") if interpreters.serves(_tag(one), minor)]
        home = scratch / f"env-{minor}"
        subprocess.run([found[minor].path, "-m", "venv", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
        subprocess.run([*pip, str(wheel), *requirements], check=True)
        _say(f"{found[minor].name}: {wheel.name}")
        told = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        told |= {"TREADLE_REQUIRED_ENGINES": "", "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        words = [str(home / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        subprocess.run([*words, *tests], cwd=tree, env=told, check=True)


def _tag(wheel: Path) -> str:
    """Python and ABI of a wheel's name."""
    return "-".join(wheel.name.split("-")[-3:-1])


def _compiler() -> str:
    words = [os.environ.get("CXX", "g++"), "--version"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def _tools() -> dict[str, str]:
    lines = build.CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
