"""Candidates for a plan whose fabric has lost links or nodes."""
