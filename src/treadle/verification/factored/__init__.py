"""Factored forests judged in their own form."""
