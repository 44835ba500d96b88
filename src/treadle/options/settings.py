"""Options of ``config``."""

from __future__ import annotations

from treadle.options.rows import Options, arg
from treadle.options.shared import Reporting


class Config(Reporting):
    """Options of ``config``."""


class ConfigSchema(Options):
    """Options of ``config schema``."""

    name: str | None = arg("[COMMAND]", "Command, e.g. solve or topology-show; default list them.", None)
