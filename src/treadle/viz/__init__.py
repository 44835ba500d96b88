"""Drawings of fabrics and of plans on them."""
