"""Calls for which a runtime chooses a runtime file, and numbers of chunks that support more sizes."""
