"""Pages that need no network: one file with their data, style and script."""
