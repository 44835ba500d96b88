"""Forms of parallelism: what each axis of a mesh makes of a step, as tasks."""
