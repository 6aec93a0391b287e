#!/usr/bin/env bash
# Runs every function test_* of tests/test_*.sh in a fresh directory.
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
passed=0 failed=0
fail() { echo "    $*"; return 1; }
eq() { [ "$1" = "$2" ] || fail "expected '$2', got '$1'"; }
fill() { head -c "$2" /dev/zero | tr '\0' 'x' > "$1"; }
roll() { "$root/bin/logroll" "$@"; }
for file in "$root"/tests/test_*.sh; do
    . "$file"
done
for t in $(declare -F | awk '{print $3}' | grep '^test_' | sort); do
    case $t in *${1:-}*) ;; *) continue ;; esac
    work=$(mktemp -d)
    mkdir "$work/logs"
    out=$(cd "$work"; exec 2>&1; set -e; "$t")
    if [ $? = 0 ]; then
        passed=$((passed + 1)); echo "ok   $t"
    else
        failed=$((failed + 1)); echo "FAIL $t"; echo "$out" | sed "s#$work#WORK#g"
    fi
    rm -rf "$work"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
