"""What real machines do: their libraries' own predictions, and what was measured on them."""
