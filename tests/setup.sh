#!/usr/bin/env bash
# Installs what the build needs, or says exactly what to install. Idempotent and quiet when all is there.
set -euo pipefail

if ! command -v cargo >/dev/null; then
  echo "error: no cargo on the PATH" >&2
  echo "hint: install Rust 1.95 or newer, see https://rustup.rs" >&2
  exit 2
fi

missing=()
command -v cc >/dev/null || missing+=(gcc)
command -v c++ >/dev/null || missing+=(g++)
command -v cmake >/dev/null || missing+=(cmake)
# The bindings to llama.cpp are made by libclang, when they are built. libclang-cpp is another library.
libclang() {
  local folder
  for folder in "${LIBCLANG_PATH:-/nowhere}" /usr/lib*/llvm-*/lib* /usr/lib*/*-linux-gnu /usr/lib* /usr/local/lib*; do
    compgen -G "$folder/libclang.so*" || compgen -G "$folder/libclang-[0-9]*.so*"
  done
}
[ -n "$(libclang)" ] || missing+=(libclang-dev)

if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "== setup: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
  echo "error: the build needs ${missing[*]}" >&2
  echo "hint: on Debian or Ubuntu: sudo apt-get install ${missing[*]}" >&2
  exit 2
fi
