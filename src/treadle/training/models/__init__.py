"""Models as tables of layers: what is stored, computed, saved and sent per token, before any sharding."""
