"""User inputs, read and checked: fabrics, plans, meshes, demands, and problems made from them."""
