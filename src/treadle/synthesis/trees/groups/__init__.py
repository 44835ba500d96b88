"""Collectives in concurrent groups of ranks: the exact optimum, and link allocations that attain it."""
