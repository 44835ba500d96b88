"""Programs and the text formats made from them."""
