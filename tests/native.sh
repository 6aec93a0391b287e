# Sourced by the Makefile before cargo: builds llama.cpp for this machine's processor.
#
# Only llama.cpp is native; the Rust code finds out at run time what the processor can do. PORTABLE=1 leaves all
# of this out: the build then runs on every x86-64 since Haswell, as plain `cargo build` does.

flavour=portable
if [ -z "${PORTABLE:-}" ] && [ -r /proc/cpuinfo ] && [ "$(uname -m)" = x86_64 ]; then
  flavour=native
  # The same as the default, but cargo watches this variable: a build without it (plain cargo) is told apart.
  export LLAMA_LIB_PROFILE=Release
  has() { grep -qm1 "^flags.*[[:space:]]$1\([[:space:]]\|$\)" /proc/cpuinfo; }
  on() { export "$1=ON"; flavour="$flavour $1"; }
  if has avx512f && has avx512bw && has avx512vl && has avx512dq && has avx512cd; then
    on GGML_AVX512
    has avx512vbmi && on GGML_AVX512_VBMI
    has avx512_vnni && on GGML_AVX512_VNNI
    has avx512_bf16 && on GGML_AVX512_BF16
  fi
  has avx_vnni && on GGML_AVX_VNNI
  # AMX crashes when llama.cpp is compiled by an older GCC, unless this header mends it (it says why).
  # It is taken from the build's own folder, so that clones that share one do not build llama.cpp anew.
  mkdir -p "${CARGO_TARGET_DIR:-target}"
  cmp -s src/models/amx_tile_config.h "${CARGO_TARGET_DIR:-target}/amx_tile_config.h" ||
    cp src/models/amx_tile_config.h "${CARGO_TARGET_DIR:-target}/"
  header="$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/amx_tile_config.h"
  if has amx_tile && has amx_int8 && [ -r "$header" ] && [ "${header#* }" = "$header" ]; then
    on GGML_AMX_TILE
    on GGML_AMX_INT8
    has amx_bf16 && on GGML_AMX_BF16
    export CXXFLAGS="${CXXFLAGS:+$CXXFLAGS }-include $header"
  fi
fi

# Part of what every answer of a model is known by. Unset is portable: so plain cargo goes on from a portable build.
if [ "$flavour" = portable ]; then unset TRAJPRESS_LLAMA_FLAVOUR; else export TRAJPRESS_LLAMA_FLAVOUR="$flavour"; fi

# llama.cpp's build does not notice all that changes here, so a new flavour makes it start over.
stamp="${CARGO_TARGET_DIR:-target}/.llama-flavour"
made="$flavour, not repacked"
if [ "$(cat "$stamp" 2>/dev/null)" != "$made" ]; then
  if [ -e "$stamp" ]; then cargo clean --quiet --release -p llama-cpp-sys-2; fi
  mkdir -p "$(dirname "$stamp")"
  echo "$made" >"$stamp"
fi
true
