"""What one need not type again, and commands about the command line itself."""
