"""The optimal rate of an all-to-all, certified from both sides."""
