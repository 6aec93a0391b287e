#!/bin/bash
# Line coverage by the library's unit tests: a Markdown table, one row a file under a folder of src (first argument;
# src/strategies unless given). Lines of tests do not count.
#
# Only this package is instrumented: cargo keeps what the wrapper makes apart from the usual build, in the same target
# folder, and builds no dependency anew. Needs rustup, for the tools of the compiler's own LLVM.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/native.sh

folder="${1:-src/strategies}"
work="$(mkdir -p "${CARGO_TARGET_DIR:-target}/coverage" && cd "${CARGO_TARGET_DIR:-target}/coverage" && pwd)"
tools="$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin"
[ -x "$tools/llvm-cov" ] || rustup component add llvm-tools >&2

printf '#!/bin/sh\nexec "$@" -C instrument-coverage\n' >"$work/rustc"
chmod +x "$work/rustc"
find "$work" -name '*.profraw' -delete
export RUSTC_WORKSPACE_WRAPPER="$work/rustc" LLVM_PROFILE_FILE="$work/%m.profraw"
# Without optimisation: it builds faster, and no line is merged into another.
cargo=(cargo test --release --locked --lib --config 'profile.release.package.trajpress.opt-level=0')

binary="$("${cargo[@]}" --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)"
find "$work" -name '*.profraw' -delete
"${cargo[@]}" >&2
"$tools/llvm-profdata" merge --sparse "$work"/*.profraw --output "$work/all.profdata"
"$tools/llvm-cov" export "$binary" --format=lcov --instr-profile="$work/all.profdata" "$folder" >"$work/lcov"

echo "| file | lines | run by tests | share |"
echo "| --- | --- | --- | --- |"
awk -v root="$PWD/$folder/" '
  function first_test(path, line, n) {
    while ((getline line < path) > 0) { n++; if (line ~ /mod tests \{$/) return n }
    return 1e9
  }
  function row(name, lines, hit) {
    if (lines) printf "| %s | %d | %d | %.1f %% |\n", name, lines, hit, 100 * hit / lines
  }
  /^SF:/ { path = substr($0, 4); name = substr(path, length(root) + 1); end = first_test(path); lines = hit = 0 }
  /^DA:/ { split(substr($0, 4), at, ","); if (at[1] + 0 < end) { lines++; hit += at[2] > 0 } }
  /^end_of_record/ && name !~ /^tests\// { row("`" name "`", lines, hit); all += lines; all_hit += hit }
  END { row("all", all, all_hit) }
' "$work/lcov" | LC_ALL=C sort
