"""Route files: JSON, CSV and XML."""
