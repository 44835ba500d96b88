"""Plans run on ranks: operators on local shards, collectives between them, and what both were seen to do."""
