"""Algorithms of other projects, as their papers and public code have them: to compare with.

Each module declares its record next to its function, marked `is_peer`.
"""
