"""owner stackyard, repository logroll: log rotation in shell, with make."""
from engine import DEBUG, DOCUMENT, EXPLORE, IMPLEMENT, VERIFY, Run

PROJECT = "stackyard__logroll"


def stackyard_logroll_5():
    """Four bugs in four shell files; the site's numbers are needed at the end. mini."""
    r = Run("stackyard__logroll-5", "mini", "mini", PROJECT, """
After the clean-up of lib/ several things went wrong on the Berlin hosts (etc/site-berlin.conf):

1. the configuration of the site is refused
2. one generation too many stays on the disk
3. files with a space in the name are not rotated
4. a second run removes the lock of the first

Please repair all four. The shell code must keep working with bash 4.2 (no `wait -p`, no `${x@Q}`, no `local -n`), and the exit
codes in README.md must not change. When all is done, add a line about Berlin's disk use to README.md: how many KB one log
file may take there at most, all generations together, if none were compressed.
""", plant=[
        ("lib/config.sh", "        line=${line%%#*}\n", "        case $line in \\#*) continue ;; esac\n"),
        ("lib/rotate.sh", "if ((n >= cfg_keep)); then", "if ((n > cfg_keep)); then"),
        ("lib/rotate.sh", 'mv -- "$file" "$file.1" && : > "$file" || return 4', 'mv -- $file $file.1 && : > "$file" || return 4'),
        ("lib/lock.sh", '''    mkdir -- "$lock_path" 2>/dev/null || { echo "logroll: $lock_path is held by another run" >&2; return 4; }
    trap 'rmdir -- "$lock_path"' EXIT
''', '''    trap 'rmdir -- "$lock_path"' EXIT
    mkdir -- "$lock_path" 2>/dev/null || { echo "logroll: $lock_path is held by another run" >&2; return 4; }
'''),
    ])
    r.sh(EXPLORE, "First the layout, the README and the Makefile.", "git ls-files; cat README.md Makefile")
    site = r.sh(EXPLORE, "Now the two configuration files; the site's one is named in the task.", "head -n 20 etc/*.conf")
    keep, kb = site.get(r"berlin[\s\S]*?keep = (\d+)"), site.get(r"max_kb = (\d+)   #")
    owner, pager, ops = site.get(r"owner: (\S+)"), site.get(r"pager (\d+)"), site.get(r"ticket (OPS-\d+)")
    t = r.sh(VERIFY, "The tests as they are.", "make test", fails=True)
    t.get(r"(\d+) failed$")
    r.sh(EXPLORE, "How do these tests run? I want to be able to start one alone.", "cat tests/run.sh")
    r.sh(DEBUG, "A name as the first argument filters. Item 1: the refused configuration.", "bash tests/run.sh comment; bin/logroll -c etc/site-berlin.conf --list; echo \"exit $?\"")
    r.sh(EXPLORE, "Exit code 3 with the comment in the value. The reader:", "cat -n lib/config.sh")
    r.sh(DEBUG, "Only lines that begin with # count as comments, but the first comment line of lib/config.sh promises that they may follow a value. A value with a # in it would be cut; does any exist?", "grep -n '=.*#' etc/*.conf tests/*.sh")
    r.sh(IMPLEMENT, "Only the one with the comment. I cut at the first #, which covers whole comment lines too, because empty lines are skipped next.",
         "python3 - <<'EOF'\np = 'lib/config.sh'\ns = open(p).read()\nold = '        case $line in \\\\#*) continue ;; esac\\n'\nassert s.count(old) == 1\nopen(p, 'w').write(s.replace(old, '        line=${line%%#*}\\n'))\nEOF\nbash tests/run.sh config")
    r.sh(VERIFY, "And the real file of the site.", "bin/logroll -c etc/site-berlin.conf --list; echo \"exit $?\"")
    r.sh(DEBUG, "Item 1 is done. Item 2: one generation too many.", "bash tests/run.sh keeps; bash tests/run.sh oldest; cat -n lib/rotate.sh", fails=False)
    r.sh(DEBUG, "The loop starts at cfg_keep, so `n > cfg_keep` is never true, and the oldest is moved to keep+1 in place of being removed. I watch it on real files.",
         "mkdir -p /tmp/w/logs && printf 'keep = 2\\nmax_kb = 1\\ncompress_from = 9\\n' > /tmp/w/c && for i in 1 2 3 4; do head -c 200$i /dev/zero > /tmp/w/logs/a.log; bin/logroll -c /tmp/w/c /tmp/w/logs; ls /tmp/w/logs | tr '\\n' ' '; echo; done")
    r.sh(IMPLEMENT, "Confirmed: a.log.3 appears with keep = 2. The comparison has to be >=.", "sed -i 's/if ((n > cfg_keep)); then/if ((n >= cfg_keep)); then/' lib/rotate.sh && git diff lib/rotate.sh && bash tests/run.sh keeps && bash tests/run.sh compress")
    r.sh(DEBUG, "Hosts that ran the bad version still have a generation keep+1 lying about; the loop never looks at it. How would it look in Berlin?",
         "mkdir -p /tmp/b/logs && sed 's#^lock.*#lock = .l#' etc/site-berlin.conf > /tmp/b/c && for n in 1 2 3 4 5 6 7 8 9 10; do echo $n > /tmp/b/logs/a.log.$n; done; head -c 140000 /dev/zero > /tmp/b/logs/a.log; bin/logroll -c /tmp/b/c /tmp/b/logs; ls /tmp/b/logs | sort -V | tr '\\n' ' '")
    r.sh(IMPLEMENT, "a.log.10 stays for ever. If the loop starts one higher, the leftover goes as well, and the code stays simple.",
         "sed -i 's/for ((n = cfg_keep; n >= 1; n--)); do/for ((n = cfg_keep + 1; n >= 1; n--)); do/' lib/rotate.sh && head -c 140000 /dev/zero > /tmp/b/logs/a.log; bin/logroll -c /tmp/b/c /tmp/b/logs; ls /tmp/b/logs | sort -V | tr '\\n' ' '")
    r.sh(VERIFY, "The leftover is gone. Rotation and compression tests:", "bash tests/run.sh rotate; bash tests/run.sh compress", fails=False)
    sp = r.sh(DEBUG, "Item 3, the name with a space, is the only failure there.", "bash tests/run.sh space; grep -n 'mv \\|rm \\|gzip ' lib/*.sh", fails=False)
    r.sh(IMPLEMENT, "Line %s has the file name without quotes." % sp.get(r"rotate\.sh:(\d+):.*mv -- \$file"), "sed -i 's/mv -- $file $file.1 /mv -- \"$file\" \"$file.1\" /' lib/rotate.sh && bash tests/run.sh space")
    r.sh(VERIFY, "Names that are worse: a leading dash, a star, a newline.",
         "mkdir -p /tmp/n/logs && cd /tmp/n/logs && for f in '-v.log' 'a*.log' $'two\\nlines.log'; do head -c 3000 /dev/zero > \"./$f\"; done; printf 'max_kb = 1\\n' > /tmp/n/c; /workspace/logroll/bin/logroll -c /tmp/n/c .; echo \"exit $?\"; ls -1 -b | LC_ALL=C sort")
    r.sh(DEBUG, "All three rotated. Item 4: the lock.", "bash tests/run.sh lock; cat -n lib/lock.sh", fails=False)
    r.sh(DEBUG, "I want to see the order of events, so I run it with -x on a directory that is locked.", "mkdir -p /tmp/x/.logroll.lock && bash -x bin/logroll /tmp/x 2>&1 | tail -n 150")
    r.sh(DEBUG, "The trap is set before mkdir, so a run that does not get the lock removes it on its way out.", "mkdir -p /tmp/k/.logroll.lock && bin/logroll /tmp/k; echo \"exit $?\"; ls -A /tmp/k")
    r.sh(IMPLEMENT, "The trap has to follow the successful mkdir.",
         "python3 - <<'EOF'\np = 'lib/lock.sh'\nlines = open(p).read().splitlines(True)\ni = next(k for k, l in enumerate(lines) if 'trap' in l)\nlines[i], lines[i + 1] = lines[i + 1], lines[i]\nopen(p, 'w').writelines(lines)\nEOF\ncat lib/lock.sh; mkdir -p /tmp/k/.logroll.lock && bin/logroll /tmp/k; echo \"exit $?\"; ls -A /tmp/k")
    r.sh(VERIFY, "The second run leaves the lock alone and still ends with 4. All tests and the syntax check.", "make test lint")
    r.sh(VERIFY, "The existing tests do not cover the leftover generation. I add one beside the others.",
         "cat >> tests/test_rotate.sh <<'EOF'\ntest_rotate_removes_leftover_generation() {\n    conf \"keep = 3\"; fill logs/app.log 2000; fill logs/app.log.4 10\n    roll -c c logs\n    [ ! -e logs/app.log.4 ]\n}\nEOF\nbash tests/run.sh leftover")
    r.sh(VERIFY, "The minimum was bash 4.2. Do the files use anything that is newer?", "grep -n 'wait -p\\|@Q}\\|local -n\\|declare -n\\|mapfile -d\\|EPOCHSECONDS' lib/*.sh bin/logroll tests/*.sh || echo none; bash --version | head -n 1 | sed 's/version.*/version (any)/'")
    total = (int(keep) + 1) * int(kb)
    r.sh(DOCUMENT, "Now the line for README.md. Berlin keeps %s generations of at most about %s KB and the current file can reach %s KB as well before it is rotated, so %d KB together." % (keep, kb, kb, total),
         "python3 - <<'EOF'\np = 'README.md'\ns = open(p).read()\nold = 'Exit codes: '\nassert s.count(old) == 1\nnew = '''On the Berlin hosts (owner %s, pager %s) one log file takes at most about %d KB without\ncompression: %s generations and the current file, %s KB each (raised in %s).\n\n'''\nopen(p, 'w').write(s.replace(old, new + old))\nEOF\ngit diff README.md" % (owner, pager, total, keep, kb, ops))
    r.sh(VERIFY, "I check these numbers against what the program itself reads, rather than trust my memory.", "bin/logroll -c etc/site-berlin.conf --list | grep 'keep\\|max_kb'; echo $(( (%s + 1) * %s ))" % (keep, kb))
    r.sh(VERIFY, "They agree. Exit codes in README.md unchanged? And nothing left in the tree?", "git diff README.md | grep -c '^[-+]Exit'; git status --short", fails=False)
    r.sh(VERIFY, "The patch, by name of file.", "git diff -- lib/config.sh lib/rotate.sh lib/lock.sh tests/test_rotate.sh README.md > patch.txt; cat patch.txt")
    r.submit("Five files, as meant. I hand in.", "make test lint")
    return r


SCRIPTS = [stackyard_logroll_5]
