#!/usr/bin/env bash
# The base model of Vaswani et al. 2017 on WMT14 English-German, with the numbers of its section 5.
#
#     accelerate config                      # once: which GPUs, of how many machines
#     scripts/wmt14_en_de_base.sh RUN        # again with --resume after a break
#
# An update takes 25,000 source and 25,000 target tokens of all GPUs together, however many there
# are; where they do not fit, --accumulate 2 (or more) takes them in parts and changes nothing else.
# The paper trained in fp32; --precision bf16 is faster on newer GPUs. Optimiser (Adam, 0.9, 0.98,
# 1e-9), schedule, dropout and search are the defaults of the command. The paper wrote a checkpoint
# every 10 minutes of its 12 hours: every 1,400 updates.
set -euo pipefail
run=${1:?usage: $0 RUN [OPTION...]}
shift

accelerate launch "$(dirname "$0")/train.py" \
  --train wmt/wmt14:de-en:train --valid wmt/wmt14:de-en:validation \
  --source-lang en --target-lang de \
  --preset base --vocab-size 37000 --label-smoothing 0.1 \
  --batch-tokens 25000 --warmup-steps 4000 --max-steps 100000 --clip-norm 0 \
  --save-every 1400 --keep-checkpoints 5 \
  --output "$run" "$@"

vanilla-transformer evaluate "$run/model" --source wmt/wmt14:de-en:test --output "$run/newstest2014"
