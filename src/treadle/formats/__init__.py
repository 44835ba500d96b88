"""Programs as texts for runtimes: for each format its writer, its reader and its judge."""
