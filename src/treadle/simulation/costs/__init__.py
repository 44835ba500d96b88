"""Costs of messages: latencies and occupancies by class of link, efficiencies by protocol, launches."""
