"""What a plan costs and whether it computes what the model does, told by code that no search shares."""
