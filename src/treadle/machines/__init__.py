"""Real machines: the predictions of their libraries, and measured times."""
