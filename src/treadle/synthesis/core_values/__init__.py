"""What the compiled core takes and returns: tuples with named and typed fields; see each module."""
