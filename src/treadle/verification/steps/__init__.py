"""Step schedules judged by following every chunk."""
