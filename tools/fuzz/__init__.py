"""Search for faults with random and hostile input: `python -m tools.fuzz --help`.

A *target* draws cases, which are JSON values, and checks one: `targets`. A *worker* process lets Hypothesis
draw cases for one target after the other, from seeds, and notes what it finds (`worker`); `supervisor` ends
workers that hang, die or take too much memory. What was found is kept as an example, which the ordinary tests
repeat (`examples`), and in CI is held against the parent commit (`parent`).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""Of the repository."""

sys.path.append(str(ROOT / "tests"))  # strategies and slow references are those of the tests
