test_compress_from_second() {
    printf '%s\n' "max_kb = 1" "keep = 4" "compress_from = 2" > c
    for n in 1 2 3; do fill logs/app.log $((2000 + n)); roll -c c logs; done
    eq "$(ls logs | tr '\n' ' ')" "app.log app.log.1 app.log.2.gz app.log.3.gz "
    eq "$(gzip -dc logs/app.log.3.gz | wc -c)" 2001
}
test_compress_oldest_is_removed() {
    printf '%s\n' "max_kb = 1" "keep = 2" "compress_from = 2" > c
    for n in 1 2 3 4; do fill logs/app.log $((2000 + n)); roll -c c logs; done
    eq "$(ls logs | tr '\n' ' ')" "app.log app.log.1 app.log.2.gz "
}
