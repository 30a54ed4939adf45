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
usage="usage: $0 DATA RUN [OPTION...]"
data=${1:?$usage} run=${2:?$usage}
shift 2
for file in "$data"/{train,val,test_2016_flickr}.{en,de}.gz; do
  [ -f "$file" ] || { echo "$0: there is no $file" >&2; exit 2; }
done
case " $* " in *" --output "*) echo "$0: RUN is the output folder; leave --output out" >&2; exit 2 ;; esac
here=$(dirname "$0")
test=$data/test_2016_flickr

"$here/launch.sh" \
  --train "$data/train.en.gz" "$data/train.de.gz" --valid "$data/val.en.gz" "$data/val.de.gz" \
  --source-lang en --target-lang de --preset tiny --architecture d_model=160 d_ff=320 --vocab-size 4000 \
  --bpe-dropout 0.1 --epochs 90 --precision bf16 --beams 5 --alpha 1.4 \
  --output "$run" --resume "$@"
# After Ctrl-C the model is half-trained, and the same command goes on with it.
if grep -q '"stopped_by": "interrupt"' "$run/report.json"; then exit 130; fi

vanilla-transformer evaluate "$run/model" --source "$test.en.gz" --reference "$test.de.gz" \
  --confidence --examples 20 --output "$run/test_2016_flickr"
python "$here/moses_bleu.py" --source "$test.en.gz" --reference "$test.de.gz" --language de \
  --translations "$run/test_2016_flickr/translations.txt" --output "$run/test_2016_flickr_moses.json"

vanilla-transformer publish "$run/model" "${REPO_ID:-someone/multi30k-en-de}" --dry-run \
  --report "$run/test_2016_flickr/report.json" --report "$run/test_2016_flickr_moses.json"
