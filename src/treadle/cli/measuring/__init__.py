"""Commands that run, simulate and measure."""
