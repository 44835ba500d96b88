"""Real machines: predictions of their libraries, and measured times."""
