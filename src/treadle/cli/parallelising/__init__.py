"""Commands that look for the best way to shard, recompute and pipeline a model."""
