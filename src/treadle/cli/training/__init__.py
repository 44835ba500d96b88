"""Commands that simulate training and serving."""
