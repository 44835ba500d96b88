"""Commands that judge and write texts."""
