"""ForestColl: throughput-optimal spanning-tree schedules."""
