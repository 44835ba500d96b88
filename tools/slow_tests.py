"""Write the list of slow tests from a log of pytest.

First ``python -m pytest -n 2 --durations=0 | tee LOG``, then ``python -m tools.slow_tests LOG``.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "slow_tests.txt"
LEAST_SECONDS = 0.5
"""Of a function with all its parameters; the others then take less than four minutes on two cores."""

_TIME = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown)\s+(\S+?)(?:\[.*)?$")
_HEAD = "# Left to `make test-all`; written by tools/slow_tests.py. A line is a test, a file or a folder.\n"


def slow_tests(log: str) -> list[str]:
    """Return the functions that take long together with all their parameters, in order."""
    seconds: dict[str, float] = defaultdict(float)
    for line in log.splitlines():
        if (found := _TIME.match(line)) is not None:
            seconds[found[2]] += float(found[1])
    return sorted(name for name, total in seconds.items() if total >= LEAST_SECONDS)


def main(log: str) -> None:
    """Write the functions of a log that no listed file or folder contains, beside these."""
    whole = [line for line in LIST.read_text().splitlines() if line.startswith("tests/") and "::" not in line]
    single = [one for one in slow_tests(Path(log).read_text()) if not one.startswith(tuple(whole))]
    LIST.write_text(_HEAD + "".join(f"{line}\n" for line in (*whole, *single)))


if __name__ == "__main__":
    main(sys.argv[1])
