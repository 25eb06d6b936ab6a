"""What is this host? Interfaces, routes, RDMA ports, GPUs, software, what NCCL would choose."""
