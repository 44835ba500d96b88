"""Few and low trees: height and number of trees traded for throughput."""
