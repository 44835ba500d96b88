"""Pictures of fabrics and of what plans do on them."""
