"""Which calls a runtime gives to a text, and chunks of which more sizes are served."""
