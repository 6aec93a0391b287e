#!/bin/sh
# All tables of this folder: `sh reports/hindsight/make.sh LOGS OUT [MORE.jsonl]`. LOGS: folders of logs, the first of which datasets/labels counts from,
# between quotes; MORE: labelled logs beside those. Needs trajpress, and python3 with numpy, pyarrow, scipy, scikit-learn and lightgbm. About half an hour.
set -eu
logs=$1 out=$2 more=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
labels=$here/../../datasets/labels
join() { python3 "$labels/join.py" --logs "${logs%% *}" "$@"; }
join > "$out/labelled.jsonl"
join "$labels/second-swe.jsonl" "$labels/second-products.jsonl" > "$out/second.jsonl"
tables() { data=$1; shift; trajpress ingest "$@" --out "$data" --quiet; trajpress annotate "$data" --quiet; }
# shellcheck disable=SC2086 # Several folders, and perhaps no file.
tables "$out/logs" $logs
# shellcheck disable=SC2086
tables "$out/labelled" "$out/labelled.jsonl" $more
tables "$out/open" "$here/../../datasets/coding"
export OMP_NUM_THREADS=1
python3 "$here/needs.py" "$out/logs" "$out"
python3 "$here/salience.py" "$out/labelled" "$out"
python3 "$here/readers.py" "$out/labelled.jsonl" "$out/second.jsonl"
python3 "$here/export.py" "$out/logs" "$out/labelled" "$out/open" "$out"
# With MODELS=yes also what asks models, 20 minutes each at most (`trajpress models fetch`); started again it goes on from the answers in OUT.
if [ -n "${MODELS:-}" ]; then
  python3 "$here/stack.py" "$out/labelled" "$out" trajpress
  python3 "$here/agora.py" "$out/logs" "$out" trajpress
fi
