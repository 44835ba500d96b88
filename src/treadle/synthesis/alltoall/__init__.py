"""All-to-all by multi-commodity flow."""
