"""The best schedule at every size: candidates raced under a cost model, their envelope as one plan."""
