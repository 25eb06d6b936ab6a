srun --nodelist=p-gc-3007 accelerate launch --config_file 8gpus_r0.yaml main.py
srun --nodelist=p-gc-3016 accelerate launch --config_file 8gpus_r1.yaml main.py
srun --nodelist=p-gc-3008 accelerate launch --config_file 8gpus_r2.yaml main.py
srun --nodelist=p-gc-3009 accelerate launch --config_file 8gpus_r3.yaml main.py
