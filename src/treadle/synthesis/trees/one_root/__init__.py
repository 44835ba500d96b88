"""Trees of a single root, box by box: low ones, in time that hardly grows with the number of boxes."""
