"""Shardings of a model on a mesh as a factor graph: the choices of a search, and their costs."""
