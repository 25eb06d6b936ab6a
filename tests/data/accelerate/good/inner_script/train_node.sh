#!/bin/bash
# In the shape of a script that srun starts on every node
echo "Node $SLURM_NODEID says: main node at $HEAD_NODE"
accelerate launch \
    --multi_gpu \
    --gpu_ids="all" \
    --main_process_port $HEAD_NODE_PORT \
    --main_process_ip $HEAD_NODE  \
    --num_machines $SLURM_NNODES \
    --machine_rank $SLURM_NODEID \
    --num_processes $(($SLURM_GPUS_PER_NODE*$SLURM_NNODES)) \
    diffusions/train.py \
    --exp_id diff_1008_01
