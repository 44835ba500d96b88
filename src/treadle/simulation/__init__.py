"""Times of programs on a fabric: alpha-beta costs, and a chunk-level discrete-event simulation."""
