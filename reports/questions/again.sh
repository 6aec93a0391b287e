#!/usr/bin/env bash
# Makes what this page says of the rules again from the rows of rules.toml beside it: `bash reports/questions/again.sh PROGRAM`. Fails where a table is another
# than the one that stands here.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")"
made=$(mktemp -d) changed=0
trap 'rm -r "$made"' EXIT
draw() { "$program" report rows --quiet "$@" > "$made/log" 2>&1 || { cat "$made/log" && exit 1; }; }
draw --baseline protected-core --out "$made/report"
draw --claims claims.toml --out "$made/claims"
mkdir "$made/new"
cp "$made/report/truth.md" "$made/new/truth_rules.md"
cp "$made/report/summary.csv" "$made/new/summary_rules.csv"
cp "$made/claims/claims.csv" "$made/new/claims_rules.csv"
# Of the page of the claims the answers alone: its rows stand in the csv, what each measures in claims.toml.
awk '/^## /{ part = $0 }
  /^## Tested in this run$/{ print "*Cut: the rows that were tested stand in `claims_rules.csv`; here is how they answer the questions.*"; print "" }
  part != "## Tested in this run" && part != "## Not in this run" && part != "## How each claim is measured" &&
    part !~ /^## Columns of /' "$made/claims/claims.md" > "$made/new/claims_rules.md"
if python3 -c 'import pyarrow' 2> /dev/null; then
  python3 tables.py rows > "$made/new/tables_rules.md"
else
  echo "reports/questions: pyarrow for Python is missing: tables_rules.md is not compared" >&2
fi
for file in "$made"/new/*; do
  cmp -s "$file" "$(basename "$file")" || { echo "reports/questions/$(basename "$file") differs" && changed=1; }
  cp "$file" .
done
exit $changed
