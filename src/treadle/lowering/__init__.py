"""Plans as runtime files."""
