"""``python -m treadle``."""

from treadle.cli.main import entry_point

entry_point()
