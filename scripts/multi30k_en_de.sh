#!/usr/bin/env bash
# Multi30k English-German (Elliott et al. 2016), from its raw text to a folder that can be published.
#
#     scripts/multi30k_en_de.sh DATA RUN [OPTION...]     # the same again after a break
#
# DATA holds train, val and test_2016_flickr as .en.gz and .de.gz; OPTIONs are those of
# `vanilla-transformer train` and win over those below, but for lists, which are given once. Needs
# `pip install ".[recipes]"`, for sacremoses.
# The model has 2.7 million parameters, about as many as Transformer-Tiny (Wu et al. 2021);
# docs/experiments.md tells why the numbers are what they are. RUN/model is left with its card; upload it with
# `vanilla-transformer publish`.
set -euo pipefail
. "$(dirname "$0")/recipe.sh"
python -c 'import sacremoses' 2> /dev/null || refuse 'sacremoses is missing: pip install ".[recipes]"'
need "$data"/{train,val,test_2016_flickr}.{en,de}.gz
test=$data/test_2016_flickr scores=$run/test_2016_flickr

train --train "$data/train.en.gz" "$data/train.de.gz" --valid "$data/val.en.gz" "$data/val.de.gz" \
  --source-lang en --target-lang de --preset tiny --architecture d_model=160 d_ff=320 --vocab-size 4000 \
  --bpe-dropout 0.06 --epochs 90 --precision bf16 --beams 5 --alpha 1.4 "$@"

is_current "$scores/report.json" || vanilla-transformer evaluate "$run/model" \
  --source "$test.en.gz" --reference "$test.de.gz" --confidence --examples 20 --output "$scores"
python "$here/moses_bleu.py" --source "$test.en.gz" --reference "$test.de.gz" --language de \
  --translations "$scores/translations.txt" --output "${scores}_moses.json"

vanilla-transformer publish "$run/model" "${REPO_ID:-someone/multi30k-en-de}" --dry-run \
  --report "$scores/report.json" --report "${scores}_moses.json"
