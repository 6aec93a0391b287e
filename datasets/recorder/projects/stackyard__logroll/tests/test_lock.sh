test_lock_is_released() {
    echo "max_kb = 1" > c
    roll -c c logs
    [ ! -e logs/.logroll.lock ]
}
test_lock_held() {
    echo "max_kb = 1" > c
    mkdir logs/.logroll.lock; fill logs/app.log 2000
    roll -c c logs 2> err && fail "ran" || eq "$?" 4
    grep -q 'held by another run' err
    [ -d logs/.logroll.lock ]
}
