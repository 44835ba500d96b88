"""Commands that find and show fabrics."""
