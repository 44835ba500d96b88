"""Plans on emulated networks: measured, and what models say of them."""
