"""Steps of an all-to-all."""
