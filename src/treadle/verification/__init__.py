"""The judges: one per form of schedule; they import values only and share nothing with generators."""
