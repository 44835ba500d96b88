"""Which sets of nodes are likely to be tight."""
