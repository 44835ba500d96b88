"""What is given up for what: height and number of trees against throughput."""
