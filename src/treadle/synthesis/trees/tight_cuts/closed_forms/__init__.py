"""Closed forms of the outermost piece, by the shape of its planes and relays."""
