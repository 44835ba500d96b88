"""Third-party schedules: messages between ranks, and the physical paths that they take on a fabric."""
