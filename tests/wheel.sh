#!/usr/bin/env bash
# Tries a wheel as a user would: a fresh virtual environment, `pip install`, `trajpress try`. Builds nothing.
set -euo pipefail
wheel="$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
data="$(cd "$(dirname "$0")/../datasets/coding" && pwd)"

fail() { echo "error: $1" >&2; exit 1; }
bytes="$(wc -c <"$wheel")"
[ "$bytes" -lt 40000000 ] || fail "the wheel has $bytes bytes, 40 MB is the most"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python="${PYTHON:-python3}"
# Debian's python has no venv until it is installed.
"$python" -m venv "$work/venv" 2>/dev/null || {
  "$python" -m pip install --quiet --disable-pip-version-check --target "$work/virtualenv" virtualenv
  PYTHONPATH="$work/virtualenv" "$python" -m virtualenv --quiet "$work/venv"
}
bin="$work/venv/bin"
[ -d "$bin" ] || bin="$work/venv/Scripts"
# From the folder alone: a wheel that needs another package, or another platform, cannot be installed.
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$wheel"

cd "$work"
# Nobody's sessions are there, and the folder holds nothing: then it says what to do.
export HOME="$work/home" USERPROFILE="$work/home" XDG_CACHE_HOME="$work/cache"
mkdir "$HOME" "$work/empty"
(cd empty && "$bin/trajpress" try) >none 2>&1 && fail "it found sessions where there are none"
grep -q '^hint: ' none || fail "no hint where there are no sessions: $(cat none)"

seconds="$SECONDS"
"$bin/trajpress" try "$data" --out first >told 2>heard || fail "try failed: $(cat heard)"
for part in '^Over [0-9]* sessions' '^Nothing compressed: ' '^policy ' '^drop old turns, every turn (floor) '; do
  grep -q "$part" told || fail "the answer lacks \`$part\`: $(cat told)"
done
[ -s first/report/retention_savings.png ] || fail "there is no figure"
# A strategy in Python, over the same data.
cat >mine.py <<'END'
import trajpress

@trajpress.strategy(version="1")
def newest(event: trajpress.Event) -> list:
    return event.messages[-2:]

trajpress.main()
END
# As the program has to start it: in Git Bash the path is another one than in Windows.
started="$("$bin/python" -c 'import sys; print(sys.executable)')"
cat >mine.toml <<END
name = "mine"
[[strategies]]
name = "command"
command = ['$started', "mine.py"]
[[triggers]]
name = "turns"
n = 4
END
"$bin/python" -c 'import trajpress; trajpress.run("mine.toml", "first/data", "mine", limit=4)' 2>heard ||
  fail "a strategy in Python failed: $(cat heard)"
[ -s mine/cells.parquet ] || fail "the strategy in Python has no rows"
echo "ok: $(basename "$wheel"), $((bytes / 1000000)) MB, answered after $((SECONDS - seconds)) s"
