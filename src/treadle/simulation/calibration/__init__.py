"""Cost models fitted on measurements."""
