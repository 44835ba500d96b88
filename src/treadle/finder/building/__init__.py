"""Fabrics as they are built: racks, cables, prices, growth."""
