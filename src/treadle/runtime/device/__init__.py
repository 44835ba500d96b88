"""Thread-block programs of one-sided operations, run by a persistent kernel, or by threads instead."""
