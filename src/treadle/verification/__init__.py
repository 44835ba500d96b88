"""Independent verifiers of schedules, one package for each form."""
