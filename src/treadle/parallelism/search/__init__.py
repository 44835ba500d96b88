"""The search for the best state of every tensor, as numerics: nothing here knows of tensors."""
