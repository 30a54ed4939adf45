#!/usr/bin/env bash
# Chinese-English on sentence pairs of Tatoeba, from TSV files to a folder that can be published.
#
#     scripts/tatoeba_zh_en.sh DATA RUN [OPTION...]      # the same again after a break
#
# DATA holds train, val and test as .tsv.gz, a Chinese sentence, a tab and an English one in a line;
# OPTIONs are those of `vanilla-transformer train` and win over those below, but for lists, which are
# given once. docs/experiments.md tells why the numbers are what they are. RUN/model is left with its
# card; upload it with `vanilla-transformer publish`.
set -euo pipefail
. "$(dirname "$0")/recipe.sh"
need "$data"/{train,val,test}.tsv.gz

train --train "$data/train.tsv.gz" --valid "$data/val.tsv.gz" --source-lang zh --target-lang en \
  --preset tiny --architecture dropout=0.3 --vocab-size 8000 --isolate-han --bpe-dropout 0.06 --precision bf16 \
  --beams 5 --alpha 1.0 "$@"

is_current "$run/test/report.json" || vanilla-transformer evaluate "$run/model" \
  --source "$data/test.tsv.gz" --confidence --examples 20 --output "$run/test"
echo 我爱猫 | vanilla-transformer translate "$run/model"

vanilla-transformer publish "$run/model" "${REPO_ID:-someone/tatoeba-zh-en}" --dry-run \
  --report "$run/test/report.json"
