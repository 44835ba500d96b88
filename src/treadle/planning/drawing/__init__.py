"""Pictures of fabrics and plans."""
