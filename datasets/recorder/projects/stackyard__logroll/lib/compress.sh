# Gzips the generations from compress_from on that are not gzipped yet.
compress_old() {
    local file=$1 n
    for ((n = cfg_compress_from; n <= cfg_keep; n++)); do
        if [ -e "$file.$n" ]; then
            gzip -n -- "$file.$n" || return 4
        fi
    done
}
