"""A fabric emulated on one Linux host: network namespaces for nodes, shaped virtual links between them."""
