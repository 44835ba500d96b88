"""A result as rows: what people read and what JSON holds, said once."""
