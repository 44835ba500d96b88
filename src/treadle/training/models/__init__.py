"""Models as tables of layers: weights, work, saved and sent elements per token, before any sharding."""
