"""How a model may be split on a mesh, as a factor graph: what a search chooses among, and what each costs."""
