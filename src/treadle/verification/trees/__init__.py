"""Forests judged tree by tree."""
