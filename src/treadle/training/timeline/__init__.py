"""Tasks of devices' compute and communication streams, and when each of them runs."""
