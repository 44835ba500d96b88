"""Tight-cut decomposition: detect sets, cut the fabric into pieces, solve each kind once, glue."""
