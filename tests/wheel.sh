#!/usr/bin/env bash
# Tries a wheel as a user would: a fresh virtual environment, `pip install`, `trajpress try`. Builds nothing.
set -euo pipefail
wheel="$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
data="$(cd "$(dirname "$0")/../datasets/coding" && pwd)"
own="$(cd "$(dirname "$0")/../docs" && pwd)/own.md"
typed="$(cd "$(dirname "$0")" && pwd)/typed.py"

fail() { echo "error: $1" >&2; exit 1; }
bytes="$(wc -c <"$wheel")"
[ "$bytes" -lt 40000000 ] || fail "the wheel has $bytes bytes, 40 MB is the most"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python="${PYTHON:-python3}"
begin="$SECONDS"
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
answered="$((SECONDS - seconds))"

# A strategy and a score in Python, as docs/own.md has them, word for word, over the same data.
"$bin/python" - "$own" <<'END'
import re, sys

text = open(sys.argv[1], encoding="utf-8").read()
for name, body in re.findall(r"^`(\w+\.\w+)`[^\n]*:[^\n]*\n\n```\w+\n(.*?)```", text, re.S | re.M):
    # As trajpress has to start it: in Git Bash the path is another one than in Windows.
    python = "command = [" + repr(sys.executable)
    open(name, "w", encoding="utf-8").write(body.replace('command = ["python3"', python))
scores = re.search(r"```toml\n(\[scores\].*?)```", text, re.S)[1].replace('command = ["python3"', python)
open("mine.toml", "a", encoding="utf-8").write(scores)
END
"$bin/python" -c 'import trajpress; trajpress.report(trajpress.run("mine.toml", "first/data", "run")); print(trajpress.__version__)' >told 2>heard ||
  fail "a strategy in Python failed: $(cat heard)"
"$bin/trajpress" --version | grep -qF " $(cat told)" || fail "the package says that it is $(cat told)"
grep -q 'paths_kept 1 #' run/report/own.md || fail "no score in Python: $(cat run/report/own.md)"
# Behind need retention stands the score: a number with its interval, and the share of events without one.
for strategy in 'command(' drop-all mask hindsight random oracle; do
  grep -qF "| $strategy" run/report/summary.md || fail "no row of $strategy: $(cat run/report/summary.md)"
  grep -F "| $strategy" run/report/own.md | grep -Eq '\| +[01]\.[0-9]+ \[[^|]*\| +0\.000 \|' ||
    fail "the score in Python has no value of $strategy: $(cat run/report/own.md)"
done
mine="$((SECONDS - begin))"

# The types of the package, of what users may write and of the programs of docs/own.md, by a checker that knows the oldest Python that is promised and the newest.
if "$bin/python" -m pip install --quiet --disable-pip-version-check mypy==1.18.2 2>heard; then
  for version in 3.9 3.14; do
    "$bin/python" -m mypy --strict --python-version "$version" -p trajpress >told || fail "types of $version: $(cat told)"
    "$bin/python" -m mypy --strict --python-version "$version" "$typed" mine.py my_score.py >told || fail "types of $version: $(cat told)"
  done
else
  echo "SKIPPED: mypy cannot be installed, so types are not checked: $(cat heard)" >&2
fi
echo "ok: $(basename "$wheel"), $((bytes / 1000000)) MB, answered after $answered s; a strategy and a score of one's own in the tables $mine s after nothing was there"
