"""What messages cost: latencies and occupancies by class of link, efficiencies by protocol, launches."""
