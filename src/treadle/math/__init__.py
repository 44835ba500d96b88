"""Mathematics that several packages share: linear programs."""
