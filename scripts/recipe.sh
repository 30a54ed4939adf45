# Sourced by the recipes of small corpora, with their command line: it sets data, run and what is left.
refuse() {
  echo "$0: $1" >&2
  exit 2
}

interrupted() {
  echo "$0: interrupted; the same command continues" >&2
  exit 130
}

trap interrupted INT  # in the background, where bash ignores it, training tells
[ $# -ge 2 ] || refuse "usage: $0 DATA RUN [OPTION...]"
case $2 in -* | "") refuse "usage: $0 DATA RUN [OPTION...]" ;; esac
command -v python > /dev/null || refuse "there is no python here; activate the environment"
here=$(dirname "$0") data=$1 run=$2
[ ! "$data" -ef "$run" ] || refuse "RUN is DATA; name another folder"
shift 2
for option; do
  case $option in
    --output | --output=*) refuse "RUN is the output folder; leave --output out" ;;
    --help | --dry-run | --from | --from=*) refuse "$option is no option of a recipe; give it to vanilla-transformer train" ;;
  esac
done

# Refuse to begin without a file.
need() {
  local file
  for file; do
    [ -f "$file" ] || refuse "there is no $file"
  done
}

# Train with these options. After Ctrl-C the model is half-trained: the same command continues it.
train() {
  local status=0 begun
  begun=$(mktemp)
  "$here/launch.sh" "$@" --output "$run" --resume || status=$?
  # With several processes their launcher has the last word, and a status of its own.
  if [ $status != 0 ] && [ "$run/report.json" -nt "$begun" ] \
    && grep -q '"stopped_by": "interrupt"' "$run/report.json"; then status=130; fi
  rm "$begun"
  [ $status != 130 ] || interrupted
  return $status
}

# Whether a file was made from the model as it is now.
is_current() { [ "$1" -nt "$run/model/model.safetensors" ]; }
