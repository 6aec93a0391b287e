#!/usr/bin/env bash
# Measures quantisations with llama.cpp's own tools, built as README.md says.
#
#   measure.sh speed TOOLS FLAVOUR THREADS GGUF...     tokens a second read, and written by 1 and by 4 sequences
#   measure.sh quality TOOLS TEXT BASE GGUF...         perplexity, and what changed against BASE
set -euo pipefail
what=$1 tools=$2
export LD_LIBRARY_PATH="$tools"

# A build with several instruction sets loads the one that is there: only the wanted one is shown to it.
flavour() {
  stage="$tools/only-$1"
  mkdir -p "$stage"
  for file in "$tools"/llama-* "$tools"/*.so*; do
    case "$file" in *libggml-cpu-*) ;; *) ln -sf "$file" "$stage/" ;; esac
  done
  # A copy: programs look for back ends beside themselves.
  cp --remove-destination "$tools"/llama-batched-bench "$tools"/llama-perplexity "$stage/"
  ln -sf "$tools/libggml-cpu-$1.so" "$stage/"
  echo "$stage"
}

case "$what" in
speed)
  stage=$(flavour "$3")
  threads=$4
  shift 4
  for model in "$@"; do
    "$stage/llama-batched-bench" -m "$model" -c 2304 -b 512 -ub 512 -npp 512 -ntg 32 -npl "${NPL:-1,4}" -fa off \
      -t "$threads" -tb "$threads" 2>/dev/null |
      awk -F'|' -v name="$(basename "$model")" '$4+0 > 0 { printf "%s B=%d read %.0f written %.1f\n", name, $4, $7, $9 }'
  done
  ;;
quality)
  stage=$(flavour zen4)
  text=$3 base=$4
  shift 4
  logits=$(mktemp)
  trap 'rm -f "$logits"' EXIT
  common=(-f "$text" -c 512 --chunks 8 -t 2 -fa off)
  "$stage/llama-perplexity" -m "$base" "${common[@]}" --kl-divergence-base "$logits" 2>&1 |
    grep -E "Final estimate" | sed "s|^|$(basename "$base") |"
  for model in "$@"; do
    "$stage/llama-perplexity" -m "$model" "${common[@]}" --kl-divergence-base "$logits" --kl-divergence 2>&1 |
      grep -E "Mean PPL\(Q\)  |Mean    KLD|Same top p:" | sed "s|^|$(basename "$model") |"
  done
  ;;
esac
