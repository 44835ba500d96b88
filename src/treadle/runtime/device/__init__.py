"""Programs as lanes of one-sided operations: what a persistent kernel runs, and threads in its place."""
