"""The topology finder: bases and expansions searched for the best fabric of N nodes and degree d."""
