"""Options of all commands and keywords of the Python API, declared once: a row each, in tables by verb."""
