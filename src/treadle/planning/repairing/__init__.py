"""Plans for what a failure leaves: after it, and before it comes."""
