#!/bin/bash
# In the shape of a script that writes a file for each machine
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
srun --ntasks=2 --nodes=2 --ntasks-per-node=1 bash -lc '
    accelerate launch --config_file "cfg/accelerate_machine_${SLURM_NODEID}.yaml" train.py'
