"""Lower bounds on the time at a size, with certificates and their checks."""
