# Reads "key = value" lines; comments start with # and may follow a value.
CONFIG_KEYS="keep max_kb compress_from pattern lock"

config_load() {
    local file=$1 line key value
    [ -r "$file" ] || { echo "logroll: cannot read $file" >&2; return 3; }
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line%%#*}
        [ -n "${line//[[:space:]]/}" ] || continue
        key=$(trim "${line%%=*}")
        value=$(trim "${line#*=}")
        case " $CONFIG_KEYS " in
            *" $key "*) printf -v "cfg_$key" '%s' "$value" ;;
            *) echo "logroll: $file: unknown key '$key'" >&2; return 3 ;;
        esac
    done < "$file"
    local number
    for number in keep max_kb compress_from; do
        key=cfg_$number
        [[ ${!key} =~ ^[0-9]+$ ]] || { echo "logroll: $file: $number must be a number, is '${!key}'" >&2; return 3; }
    done
}

trim() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}
