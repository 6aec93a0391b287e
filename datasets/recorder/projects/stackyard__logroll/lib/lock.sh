# One logroll per directory: mkdir is atomic.
lock_take() {
    case $cfg_lock in
        /*) lock_path=$cfg_lock ;;
        *) lock_path=$1/$cfg_lock ;;
    esac
    mkdir -- "$lock_path" 2>/dev/null || { echo "logroll: $lock_path is held by another run" >&2; return 4; }
    trap 'rmdir -- "$lock_path"' EXIT
}
