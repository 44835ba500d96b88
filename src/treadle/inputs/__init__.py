"""What users give, read and checked: fabrics, plans, meshes, demands; from these a problem."""
