#!/usr/bin/env bash
# Installs the pinned libraries into target/differential, one environment a group that resolves, and drives each.
# Usage: run.sh [GROUP...]   groups as below; all when none is given.
# TRAJPRESS_LOGS: the folder of the real logs; without it the 200 made lists are driven.
# SWEAGENT_SOURCE: a checkout of SWE-agent 1.1.0, which is not on PyPI; without it 0.0.1 alone is driven.
# PYTHON: a Python 3.12 or 3.13.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/target/differential
python=${PYTHON:-python3}

# Group: drivers that run in its environment.
declare -A drivers=(
    [agents]="drive_langchain drive_langmem drive_autogen drive_agent_framework drive_openai_agents"
    [google]="drive_adk drive_semantic_kernel drive_haystack drive_llamaindex"
    [strands]="drive_strands"
    [kimi]="drive_kimi"
    [openhands]="drive_openhands"
    [inspect]="drive_inspect"
    [sources]="drive_aider drive_letta drive_openhands_v0 drive_sweagent drive_anthropic drive_crewai"
    [node-ai]="drive_vercel drive_mastra drive_pi"
    [node-pi]="drive_pi15"
    [node-gemini]="drive_gemini drive_cline"
)

install() {
    [ -e "$out/$1/done" ] && return
    echo "== install $1"
    if [[ $1 == node-* ]]; then
        mkdir -p "$out/$1"
        cp "$here/env/$1.json" "$out/$1/package.json"
        (cd "$out/$1" && npm install --silent --no-fund --no-audit --ignore-scripts)
    else
        "$python" -m venv --clear "$out/$1"
        "$out/$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/env/$1.txt"
        if [ -e "$here/env/$1.wheels" ]; then wheels "$1"; fi
    fi
    touch "$out/$1/done"
}

# Wheels whose packages are too heavy to install: single files of them are loaded.
wheels() {
    local pip=("$out/$1/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all:)
    local wheel name
    "${pip[@]}" --python-version 3.12 --platform manylinux_2_35_x86_64 --dest "$out/$1/wheels" -r "$here/env/$1.wheels"
    for wheel in "$out/$1"/wheels/*.whl; do
        name=$(basename "$wheel")
        "$python" -m zipfile -e "$wheel" "$out/$1/wheels/${name%%-*}"
    done
}

drive() {
    if [[ $1 == node-* ]]; then
        (cd "$out/$1" && node "$here/harness.mjs" "$here/drivers/$2.mjs" "$out/lists.jsonl" "$here/recordings")
    else
        "$out/$1/bin/python" -W ignore "$here/harness.py" "$2"
    fi
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "PYTHON is older than 3.12: $python"; exit 1; }
for tool in zstd node npm; do command -v $tool > /dev/null || { echo "$tool is missing"; exit 1; }; done
mkdir -p "$out" "$here/recordings"
"$python" "$here/lists.py" dump > "$out/lists.jsonl"
for group in ${*:-${!drivers[*]}}; do
    install "$group"
    for driver in ${drivers[$group]}; do
        drive "$group" "$driver"
    done
done
[ $# -eq 0 ] || exit 0
echo "== the models of the rules, against the recordings"
"$python" "$here/check.py"
