"""The best way to shard, recompute and pipeline a model: searches over meshes, plans and stages."""
