"""Folders that tests read from, wherever a test stands."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
GOLDEN = TESTS / "golden"
FOREIGN_SAMPLES = ROOT.parent / "shared" / "samples"
"""Files of others, beside the checkout where they are there at all."""
