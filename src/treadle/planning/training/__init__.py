"""Training and serving steps on fabrics: what their collectives cost, and what that makes of a step."""
