"""Timelines as files that viewers show: lanes of spans, and counters."""
