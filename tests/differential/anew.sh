#!/usr/bin/env bash
# Drives three libraries anew with the 200 made lists, and holds what they do to the recordings: 20 seconds of processor.
# Where they cannot be installed it says SKIPPED.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/target/differential/anew
python=${PYTHON:-python3}
start=$SECONDS
# Aider, CrewAI and agno (of its driver) are single files of their wheels; Anthropic's SDK is installed.
install() {
    "$python" -m venv "$out" &&
        "$out/bin/python" -m pip install --quiet --disable-pip-version-check anthropic==0.121.0 pydantic==2.12.5 &&
        "$out/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
            --dest "$out/wheels" aider-chat==0.86.2 crewai==1.15.30 agno==3.1.10
}
unset TRAJPRESS_LOGS
if [ ! -e "$out/done" ]; then
    rm -rf "$out"
    if ! { command -v zstd && install; } > /dev/null; then
        echo "SKIPPED: three libraries anew: they cannot be installed here (zstd, python3 with venv, a package registry)" >&2
        exit 0
    fi
    for wheel in "$out"/wheels/*.whl; do
        name=$(basename "$wheel")
        "$python" -m zipfile -e "$wheel" "$out/wheels/${name%%-*}"
    done
    touch "$out/done"
fi
rm -rf "$out/recordings"
for driver in drive_anthropic drive_aider "drive_crewai --only crewai"; do
    # shellcheck disable=SC2086
    "$out/bin/python" -W ignore "$here/harness.py" $driver --out "$out/recordings"
done
"$python" "$here/check.py" --recorded "$out/recordings"
echo "== three libraries anew: $((SECONDS - start)) s"
