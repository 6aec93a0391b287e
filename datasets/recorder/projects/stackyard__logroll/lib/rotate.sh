# Moves the generations of one log file up by one.
rotate_file() {
    local file=$1 n
    for ((n = cfg_keep; n >= 1; n--)); do
        for suffix in "" .gz; do
            [ -e "$file.$n$suffix" ] || continue
            if ((n >= cfg_keep)); then
                rm -f -- "$file.$n$suffix"
            else
                mv -- "$file.$n$suffix" "$file.$((n + 1))$suffix" || return 4
            fi
        done
    done
    mv -- "$file" "$file.1" && : > "$file" || return 4
    compress_old "$file"
}

needs_rotation() {
    local size
    size=$(wc -c < "$1")
    ((size > cfg_max_kb * 1024))
}
