"""What Treadle's site has beyond pages: links out of docs/, a reference made anew, blocks that run."""

from __future__ import annotations

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import executed
import live_reports
import navigation
import reference_pages
import repository_links


def setup(app: Sphinx) -> dict[str, object]:
    """Sphinx's hook: everything here depends on the sources alone."""
    app.add_lexer("csv", TextLexer)
    repository_links.setup(app)
    reference_pages.setup(app)
    executed.setup(app)
    live_reports.setup(app)
    navigation.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
