"""Model graphs of transformers from their dimensions, without PyTorch."""
