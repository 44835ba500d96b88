"""Schedulers that others use, on the same value types: what `compare` shows beside the optimum.

A module here is one scheduler, its record beside its function, or what several of them share. The table
(`treadle.schedulers.schedulers`) reads every module, so a new one needs no other line.
"""
