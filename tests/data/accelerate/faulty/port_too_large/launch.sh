# The command of huggingface/accelerate issue 647; the address is invented
accelerate launch --num_processes 8 --num_machines 1 --multi_gpu \
--mixed_precision fp16 --machine_rank 0 --main_process_ip 172.16.0.4 --main_process_port 69420 \
scripts/train.py
