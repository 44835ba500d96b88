"""The papers' tables and figures: ours, computed when asked for, beside what is printed."""

from __future__ import annotations
