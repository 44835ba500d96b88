"""Steps of an all-to-all judged by following every chunk."""
