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
usage="usage: $0 DATA RUN [OPTION...]"
data=${1:?$usage} run=${2:?$usage}
shift 2
for file in "$data"/{train,val,test}.tsv.gz; do
  [ -f "$file" ] || { echo "$0: there is no $file" >&2; exit 2; }
done
case " $* " in *" --output "*) echo "$0: RUN is the output folder; leave --output out" >&2; exit 2 ;; esac

"$(dirname "$0")/launch.sh" \
  --train "$data/train.tsv.gz" --valid "$data/val.tsv.gz" --source-lang zh --target-lang en \
  --preset tiny --vocab-size 8000 --isolate-han --bpe-dropout 0.1 --precision bf16 --beams 5 --alpha 1.0 \
  --output "$run" --resume "$@"
# After Ctrl-C the model is half-trained, and the same command goes on with it.
if grep -q '"stopped_by": "interrupt"' "$run/report.json"; then exit 130; fi

vanilla-transformer evaluate "$run/model" --source "$data/test.tsv.gz" \
  --confidence --examples 20 --output "$run/test"
echo 我爱猫 | vanilla-transformer translate "$run/model"

vanilla-transformer publish "$run/model" "${REPO_ID:-someone/tatoeba-zh-en}" --dry-run \
  --report "$run/test/report.json"
