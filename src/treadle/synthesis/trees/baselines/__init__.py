"""Baseline schedulers on the same value types, which `compare` shows next to the optimum.

A module here is one scheduler, its record next to its function, or common code of several. The table
(`treadle.schedulers.schedulers`) reads every module, so a new one needs no other line.
"""
