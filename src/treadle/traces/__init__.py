"""Timelines as files for trace viewers: tracks of spans, and counters."""
