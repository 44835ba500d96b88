"""What collectives cost on a fabric."""
