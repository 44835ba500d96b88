"""Treadle: provably optimal, verified collective-communication schedules for any network fabric."""
