#!/usr/bin/env bash
# Draws every kept report again from the rows beside it: `bash tests/figures.sh PROGRAM`. Files that are kept take the new form, no others
# come. Fails where a table is another than the committed one; `git diff` then shows what changed.
set -euo pipefail
program=$1 changed=0
for rows in reports/*/rows; do
  folder=${rows%/rows}
  # The README says how the report is made.
  read -ra options <<< "$(sed -n 's/^trajpress report RUN//p' "$folder/README.md" | head -n 1)"
  # Of which semantics the rows are, the page beside them says as well (older rows do not tell).
  semantics=$(sed -n 's/^ *"semantics": \([0-9]*\),$/\1/p' "$rows/_manifest.json")
  [ -z "$semantics" ] || grep -q "semantics $semantics" "$folder/README.md" || { echo "$folder/README.md does not say that its rows are of semantics $semantics" && changed=1; }
  made=$(mktemp -d)
  "$program" report "$rows" --out "$made" --quiet "${options[@]}" > "$made.txt"
  while read -r file; do
    if [ -e "$folder/$file" ] && ! cmp -s "$made/$file" "$folder/$file"; then
      cp "$made/$file" "$folder/$file"
      case $file in *.md | *.csv) echo "$folder/$file differs" && changed=1 ;; *) echo "$folder/$file drawn anew" ;; esac
    fi
  done < <(cd "$made" && find . -type f -printf '%P\n' | sort)
  rm -r "$made" "$made.txt"
  # Tables and a figure of the folder's own, from what is kept beside it.
  [ ! -e "$folder/again.sh" ] || bash "$folder/again.sh" "$program" || changed=1
done
exit $changed
