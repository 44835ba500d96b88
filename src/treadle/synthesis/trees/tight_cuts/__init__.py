"""Tight-cut decomposition: detect sets, split the fabric into subproblems, solve each class once, glue."""
