"""Runtime-neutral programs: lowering of schedules to them, passes over them, and their file format."""
