"""The verbs of the public Python API, one module each."""
