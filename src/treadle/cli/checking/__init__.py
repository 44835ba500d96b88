"""Commands that check plans and runtime files, and write runtime files."""
