"""Arguments and results of the compiled core: tuples with named and typed fields; see each module."""
