"""The node as values: GPUs, RDMA adapters, limits, and the engines that run."""
