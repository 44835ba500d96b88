"""The least time of any schedule at a size: what proves it, how it is found, and how it is checked."""
