"""Several collectives on one fabric at the same time."""
