"""Diagnosis of slow collectives: logs of nccl-tests and NCCL as values, and the causes they show."""
