"""Tasks of devices' compute and communication streams, and their start and end times."""
