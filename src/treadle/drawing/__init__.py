"""Drawings, plots and HTML reports."""
