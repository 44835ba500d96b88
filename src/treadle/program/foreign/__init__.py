"""Schedules of others: messages between ranks, and the physical ways that they take on a fabric."""
