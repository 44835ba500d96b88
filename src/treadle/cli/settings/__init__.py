"""Settings, and commands about the command line itself."""
