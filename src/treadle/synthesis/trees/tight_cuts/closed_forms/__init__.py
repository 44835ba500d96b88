"""Direct constructions of the outermost subproblem, by the shape of its planes and relays."""
