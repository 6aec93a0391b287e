#!/usr/bin/env bash
# Draws the tables and the figure of this folder again from its rows: `bash reports/seeds/again.sh PROGRAM`. Needs duckdb for Python. Fails where
# a table is another than the one that stands here.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")"
python3 -c 'import duckdb' 2> /dev/null || { echo "reports/seeds: duckdb for Python is missing: tables not compared" >&2 && exit 0; }
made=$(mktemp -d) changed=0
trap 'rm -r "$made"' EXIT
for rows in rows runs/*; do
  name=$([ "$rows" = rows ] && echo experiment || basename "$rows")
  cp -rs "$PWD/$rows" "$made/$name"
  # Golden data speak of other repositories.
  population=$([[ $name == golden-* ]] || echo --population these)
  # shellcheck disable=SC2086
  "$program" report "$made/$name" --quiet $population > "$made/log" || { cat "$made/log" && exit 1; }
done
mkdir "$made/new"
python3 tables.py "$made" "$made/new"
for file in "$made"/new/*; do
  cmp -s "$file" "$(basename "$file")" || { echo "reports/seeds/$(basename "$file") differs" && changed=1; }
  cp "$file" .
done
python3 figure.py
exit $changed
