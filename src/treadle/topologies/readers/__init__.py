"""Readers of what others' tools say of a fabric: a record each, in rooms by what a file describes."""
