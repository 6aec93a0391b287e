#!/usr/bin/env bash
# Has ray and pyarrow in a folder for Python, where it has not got them elsewhere:
#
#   bash install.sh FOLDER [SECONDS]
#
# What takes longer than so many seconds is given up; what is there is whole.
set -euo pipefail
folder="$1"
pinned="$(grep -o 'ray==[0-9.]*' "$(dirname "$0")/../../pyproject.toml")"
export PYTHONPATH="$folder${PYTHONPATH:+:$PYTHONPATH}"
is_there() { python3 -c "import pyarrow, ray; assert ray.__version__ == '${pinned#ray==}'" 2>/dev/null; }
is_there && exit
rm -rf "$folder" "$folder.new"
timeout "${2:-600}" python3 -m pip install --quiet --disable-pip-version-check --target "$folder.new" "$pinned" pyarrow
mv "$folder.new" "$folder"
is_there
