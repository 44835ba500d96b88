"""Why a measured collective is slow: logs of nccl-tests and NCCL as values, and what in them is suspect."""
