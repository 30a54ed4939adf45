#!/usr/bin/env bash
# The big model of Vaswani et al. 2017 on WMT14 English-German, with the numbers of its section 5.
#
#     accelerate config                      # once: which GPUs, of how many machines
#     scripts/wmt14_en_de_big.sh RUN         # again with --resume after a break
#
# As wmt14_en_de_base.sh, but for the model (1,024 wide, 16 heads, dropout 0.3), 300,000 updates, and
# the average of the last 20 checkpoints; 10 minutes of the paper's 3.5 days are 600 updates.
set -euo pipefail
run=${1:?usage: $0 RUN [OPTION...]}
shift

accelerate launch "$(dirname "$0")/train.py" \
  --train wmt/wmt14:de-en:train --valid wmt/wmt14:de-en:validation \
  --source-lang en --target-lang de \
  --preset big --vocab-size 37000 --label-smoothing 0.1 \
  --batch-tokens 25000 --warmup-steps 4000 --max-steps 300000 --clip-norm 0 \
  --save-every 600 --keep-checkpoints 20 \
  --output "$run" "$@"

vanilla-transformer evaluate "$run/model" --source wmt/wmt14:de-en:test --output "$run/newstest2014"
