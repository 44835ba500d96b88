"""The compiled core built with AddressSanitizer and UndefinedBehaviorSanitizer, and its tests run with it.

`make sanitize`, or `python -m tools.sanitize [tests]`. A read or write out of bounds, a use after free, a
signed overflow, a shift too far or an assertion of the standard library ends the run with a report. It fails
too if a function of the core was never called: the list of tests (`core_tests`) has a hole then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .core_tests import CORE_TESTS

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "sanitize"
_OPTIONS = {
    # the interpreter keeps what it has to its end, and tests ask for more memory than there is
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "PYTHONMALLOC": "malloc",  # so that Python's own pools hide nothing
}


def main() -> int:
    """Build, run the tests, and return pytest's exit status."""
    package = _build()
    environment = {**os.environ, **_OPTIONS, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)])}
    environment["LD_PRELOAD"] = " ".join(_runtime(name) for name in ("libasan.so", "libstdc++.so"))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tools.core_calls"]
    tests = sys.argv[1:] or CORE_TESTS
    return subprocess.run([*words, *tests], cwd=ROOT, env=environment, check=False).returncode


def _build() -> Path:
    """The package with such a core, in a folder to import from."""
    wheels, package = BUILD / "wheel", BUILD / "package"
    shutil.rmtree(wheels, ignore_errors=True)
    words = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    folder = f"build-dir={BUILD / 'cmake'}"
    for setting in ("cmake.define.TREADLE_SANITIZE=ON", "cmake.build-type=RelWithDebInfo", folder):
        words += ["-C", setting]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (wheel,) = wheels.glob("treadle-*.whl")
    shutil.rmtree(package, ignore_errors=True)
    shutil.unpack_archive(wheel, package, "zip")
    return package


def _runtime(name: str) -> str:
    """A library of the compiler, which has to be loaded before anything else."""
    found = subprocess.run(
        [os.environ.get("CXX", "g++"), f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        sys.exit(f"sanitize: the compiler has no {name}; Debian: libasan, libubsan come with g++")
    return found


if __name__ == "__main__":
    sys.exit(main())
