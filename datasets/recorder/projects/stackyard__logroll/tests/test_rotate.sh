conf() { printf '%s\n' "max_kb = 1" "$@" > c; }
test_rotate_small_file_stays() {
    conf; fill logs/app.log 1024
    roll -c c logs
    [ ! -e logs/app.log.1 ]
}
test_rotate_moves_and_empties() {
    conf; fill logs/app.log 2000
    roll -c c logs
    eq "$(wc -c < logs/app.log.1)" 2000
    eq "$(wc -c < logs/app.log)" 0
}
test_rotate_keeps_generations() {
    conf "keep = 3" "compress_from = 9"
    for n in 1 2 3 4 5; do fill logs/app.log $((2000 + n)); roll -c c logs; done
    eq "$(ls logs | tr '\n' ' ')" "app.log app.log.1 app.log.2 app.log.3 "
    eq "$(wc -c < logs/app.log.3)" 2003
}
test_rotate_name_with_space() {
    conf; fill "logs/my app.log" 2000
    roll -c c logs
    eq "$(wc -c < "logs/my app.log.1")" 2000
}
test_rotate_dry_run() {
    conf; fill logs/app.log 2000
    eq "$(roll -c c --dry-run logs)" "would rotate app.log"
    [ ! -e logs/app.log.1 ]
}
