"""The papers' tables and figures, recomputed and compared with the printed ones."""

from __future__ import annotations
