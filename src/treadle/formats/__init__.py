"""Runtime files of plans: a writer, a reader and an independent verifier for each format."""
