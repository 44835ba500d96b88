"""The fastest schedule for each message size."""
