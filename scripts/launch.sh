#!/usr/bin/env bash
# Train on all GPUs of this machine (as `accelerate config` has it), or with a process on each of
# up to four CPU cores; PROCESSES=N sets their number. Options are those of `vanilla-transformer train`.
set -euo pipefail
trap 'exit 130' INT  # also where the program at work has ended well
script="$(dirname "$0")/train.py"
command -v python > /dev/null || { echo "$0: there is no python here; activate the environment" >&2; exit 2; }
# What is mistyped is told once, in one line, before there are several processes.
python -c 'import sys; from hf_vanilla_transformer.cli import build_parser as parser
parser().parse_args(["train", *sys.argv[1:]])' "$@"
if [ "$(python -c 'import torch; print(torch.cuda.device_count())')" -gt 0 ]; then
  exec accelerate launch ${PROCESSES:+--num_processes "$PROCESSES"} "$script" "$@"
fi
cores=$(python -c 'import os; print(min(4, len(os.sched_getaffinity(0))))')
case ${PROCESSES:=$cores} in
  *[!0-9]* | 0) echo "$0: PROCESSES=$PROCESSES is no number of processes; give 1 or more" >&2; exit 2 ;;
esac
if [ "$PROCESSES" -gt 1 ]; then
  exec torchrun --standalone --nproc_per_node "$PROCESSES" "$script" "$@"
fi
exec python "$script" "$@"
