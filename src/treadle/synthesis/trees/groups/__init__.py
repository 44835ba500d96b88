"""Collectives in several groups of ranks at once: the exact optimum, and shares of links that attain it."""
