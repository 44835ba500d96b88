"""Trees of fixed k and bounded height: height and number of trees traded for throughput."""
