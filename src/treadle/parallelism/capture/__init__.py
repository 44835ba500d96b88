"""From modules of PyTorch to compute graphs; it loads torch, which of the rest only execution does."""
