"""Named fabrics: graphs, platforms and clusters, each a function."""
