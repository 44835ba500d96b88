"""Fabrics as graphs of networkx, compared with their parallel links counted."""

import networkx as nx


def networkx_graph(topology):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    graph.add_edges_from(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    return graph
