"""Fabrics out of fabrics: failures, subsets, balance, expansions."""
