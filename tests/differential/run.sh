#!/usr/bin/env bash
# Installs the pinned libraries into target/differential, one environment a group that pip can resolve, and drives each.
# Usage: run.sh [NAME...]   names of groups, of env/*.txt; all when none is given.
# TRAJPRESS_LOGS: the folder of the real logs. PYTHON: a Python of 3.12 or 3.13 (3.12 for aider, openhands-v0 and letta's wheels).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/${CARGO_TARGET_DIR:-target}/differential
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "PYTHON must be 3.12 or newer: $python is not"; exit 1; }
command -v zstd > /dev/null || { echo "zstd is missing"; exit 1; }

# Group: drivers that run in its environment.
declare -A drivers=(
    [agents]="drive_langchain drive_langmem drive_autogen drive_agent_framework"
    [google]="drive_adk drive_semantic_kernel drive_haystack drive_llamaindex"
    [strands]="drive_strands"
    [kimi]="drive_kimi"
    [openhands]="drive_openhands"
)

install() {
    [ -e "$out/$1/done" ] && return
    echo "== install $1"
    "$python" -m venv --clear "$out/$1"
    "$out/$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/env/$1.txt"
    touch "$out/$1/done"
}

mkdir -p "$out"
for group in ${*:-${!drivers[*]}}; do
    install "$group"
    for driver in ${drivers[$group]}; do
        "$out/$group/bin/python" -W ignore "$here/harness.py" "$driver"
    done
done
