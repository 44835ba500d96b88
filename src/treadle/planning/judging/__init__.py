"""Plans and texts judged."""
