test_config_comment_after_value() {
    eq "$(roll -c "$root/etc/site-berlin.conf" --list | grep max_kb)" "max_kb=128"
}
test_config_unknown_key() {
    echo "kep = 3" > c
    roll -c c --list 2> err && fail "accepted"
    eq "$(cat err)" "logroll: c: unknown key 'kep'"
}
test_config_number() {
    echo "keep = many" > c
    roll -c c --list 2> err && fail "accepted" || eq "$?" 3
}
test_config_last_line_without_newline() {
    printf 'keep = 7' > c
    eq "$(roll -c c --list | head -n 1)" "keep=7"
}
