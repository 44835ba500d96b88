"""Plans in the words of other frameworks, and what those have no words for."""
