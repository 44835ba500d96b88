"""Detection of node sets that are likely to be tight."""
