"""owner tidepool, repository fetchq: a request queue with limits, retries and a deadline."""
from engine import DEBUG, DOCUMENT, EXPLORE, IMPLEMENT, REFACTOR, VERIFY, Run

PROJECT = "tidepool__fetchq"
TESTS = "python3 -m unittest discover -s tests -t ."


def tidepool_fetchq_11():
    """An incident with three causes, then documentation and a goal that moves. annotated, very long."""
    r = Run("tidepool__fetchq-11", "plain", "annotated", PROJECT,
            "[[goal|Please fix the causes of incident 2291 (docs/incident-2291.md) in this repository.]] Rules that hold for all of it: "
            "[[constraint:C1:timeout|the total timeout must stay at 30 s]], [[constraint:C2:api|do not change the public API (fetchq/__init__.py)]], "
            "[[constraint:C3:compatibility|keep it compatible with Python 3.8]], and [[constraint:C4:dependencies|use nothing outside the standard library]]. "
            "Work through the items one after the other and run the tests after each.",
            plant=[
                ("fetchq/bucket.py", "self.tokens = min(self.burst, self.tokens + (now - self.updated) * self.rate)", "self.tokens += (now - self.updated) * self.rate"),
                ("fetchq/retry.py", "return int(wish) * 1000\n", "return min(int(wish), settings.max_delay_ms)\n"),
                ("fetchq/client.py", 'self.stats.add("throttled" if response.status == 429 else "failed", host)', 'self.stats.add("failed", host)'),
                ("fetchq/stats.py", '        "throttled": "fetchq_throttled_total",\n', ""),
            ])
    inc = r.read(EXPLORE, "I start with the incident report.", "docs/incident-2291.md")
    host = inc.get(r"`(ledger\.example\.invalid)`", "fact")
    per_host = inc.get(r"`per_host` was (\d+)", "fact")
    after = inc.get(r"`Retry-After: (\d+)`", "fact")
    bucket_no = inc.get(r"the bucket must not grow past `burst` after an idle night \((FQ-\d+)\)", "constraint")
    after_no = inc.get(r"`Retry-After` in seconds must be honoured, also above `max_delay_ms` \((FQ-\d+)\)", "constraint")
    stats_no = inc.get(r"the statistics must count 429 separately from other failures \((FQ-\d+)\)", "constraint")
    counter = inc.get(r"`(fetchq_\w+_total)`, with the label `host`", "constraint")
    team = inc.get(r"team `(\w+)`", "fact")
    sent = inc.get(r"sent (\d+) requests within one second", "fact")
    r.sh(EXPLORE, "Three items: %s, %s and %s. Now the layout." % (bucket_no, after_no, stats_no), "git ls-files && wc -l fetchq/*.py && cat fetchq.ini")
    sett = r.read(EXPLORE, "The settings are documented; I want the defaults at hand.", "docs/SETTINGS.md")
    cap = sett.get(r"\| max_delay_ms \| (\d+) \|", "fact")
    burst = sett.get(r"\| burst \| (\d+) \|", "fact")
    sett.get(r"\| timeout_s \| 30 \| total time for one request with all its retries \|", "fact")
    prefix = sett.get(r"`(FETCHQ_)<KEY>` win over the file", "fact")
    base = r.sh(VERIFY, "And the state of the tests.", TESTS + " 2>&1", fails=True)
    base.get(r"FAILED \((.+)\)", "tool_output")
    r.sh(DEBUG, "I list only the names of the failing ones.", TESTS + " 2>&1 | grep -E '^(FAIL|ERROR):'")
    # item 1
    r.read(DEBUG, "First item, %s: the bucket." % bucket_no, "fetchq/bucket.py")
    r.sh(DEBUG, "`_refill` adds tokens for the idle time without a limit. I reproduce the night from the report: %s requests at once after ten idle hours." % sent,
         "python3 - <<'EOF'\nfrom fetchq.bucket import Bucket\nb = Bucket(rate=%s, burst=%s, now=0.0)\nb.wait_for(0.0)\nprint('free at once:', sum(1 for _ in range(%s) if b.wait_for(36000.0) == 0.0), 'tokens left:', b.tokens)\nEOF" % (per_host, burst, sent)
         ).get(r"free at once: \d+ tokens left: [\d.]+", "tool_output")
    r.edit(IMPLEMENT, "[[decision|The level is capped at `burst` in `_refill`, not in `wait_for`]], so every caller sees the same level.", "fetchq/bucket.py",
           "self.tokens += (now - self.updated) * self.rate", "self.tokens = min(self.burst, self.tokens + (now - self.updated) * self.rate)")
    r.sh(VERIFY, "The same night once more, and the tests of the bucket.",
         "python3 - <<'EOF'\nfrom fetchq.bucket import Bucket\nb = Bucket(rate=%s, burst=%s, now=0.0)\nb.wait_for(0.0)\nprint('free at once:', sum(1 for _ in range(%s) if b.wait_for(36000.0) == 0.0))\nEOF\npython3 -m unittest tests.test_bucket -v 2>&1" % (per_host, burst, sent))
    r.sh(DEBUG, "Exactly the burst. What if the clock steps back, could the level fall?", "grep -n 'monotonic\\|time\\.' fetchq/*.py")
    r.subtask_end()
    # item 2
    r.read(DEBUG, "The clock is monotonic, so that cannot happen. %s is done. Second item, %s." % (bucket_no, after_no), "fetchq/retry.py")
    r.sh(DEBUG, "`min(int(wish), settings.max_delay_ms)` mixes seconds with milliseconds: a wish of %s s becomes %s ms. Let me see it." % (after, after),
         "python3 - <<'EOF'\nfrom fetchq import load_settings\nfrom fetchq.retry import delay_ms\ns = load_settings(environ={})\nfor wish in ('0', '1', '%s', '20', ' 5 ', 'soon', None):\n    print(repr(wish), delay_ms(1, {} if wish is None else {'retry-after': wish}, s))\nEOF" % after)
    r.read(EXPLORE, "Before the change: who calls `delay_ms`, and what guards the deadline?", "fetchq/client.py")
    r.edit(IMPLEMENT, "The report wants the wish honoured also above the cap, and the deadline check in `_pause` still protects the total of 30 s. [[decision|So the wish is converted to ms and not capped.]]",
           "fetchq/retry.py", "return min(int(wish), settings.max_delay_ms)\n", "return int(wish) * 1000\n")
    r.sh(VERIFY, "The retry tests.", "python3 -m unittest tests.test_retry -v 2>&1")
    r.sh(DEBUG, "What does a client see when the wish is longer than the deadline allows? It should stop at once and not sleep first.",
         "python3 - <<'EOF'\nfrom tests.support import URL, client\nfrom fetchq import FetchError\nc = client([(429, {'retry-after': '45'}), (200, {})])\ntry:\n    print(c.get(URL))\nexcept FetchError as e:\n    print(type(e).__name__, e, 'slept', c.clock.slept)\nEOF")
    r.sh(EXPLORE, "Good: Deadline without any sleep. Header names arrive in which case? `delay_ms` asks for lower case.", "grep -rn -i 'retry-after' fetchq/*.py tests/*.py")
    r.edit(IMPLEMENT, "The transport is the caller's, so `Retry-After` with capitals is likely: the report itself writes it so. I lower the names in the one place where headers are read.",
           "fetchq/retry.py", '    wish = headers.get("retry-after")\n', '    wish = {name.lower(): value for name, value in headers.items()}.get("retry-after")\n')
    r.sh(IMPLEMENT, "A test for that, with the very header of the incident.", """python3 - <<'EOF'
p = 'tests/test_retry.py'
s = open(p).read()
mark = '\\n\\nclass RetryTest'
assert s.count(mark) == 1
open(p, 'w').write(s.replace(mark, '''
    def test_header_name_in_any_case(self):
        self.assertEqual(delay_ms(1, {"Retry-After": "%s"}, SETTINGS), %s000)
''' + mark))
EOF
python3 -m unittest tests.test_retry 2>&1""" % (after, after))
    r.subtask_end()
    # item 3
    r.read(DEBUG, "%s is done. Third item, %s: the counters." % (after_no, stats_no), "fetchq/stats.py")
    r.sh(DEBUG, "There is no name for throttling at all. The two tests for it fail how?", "python3 -m unittest tests.test_stats 2>&1", fails=True)
    r.edit(IMPLEMENT, "I add the counter under the name that the dashboards of team %s read: `%s`." % (team, counter), "fetchq/stats.py",
           '        "retried":', '        "throttled": "%s",\n        "retried":' % counter)
    r.edit(IMPLEMENT, "And the client tells the two cases apart.", "fetchq/client.py",
           '            self.stats.add("failed", host)\n', '            self.stats.add("throttled" if response.status == 429 else "failed", host)\n')
    r.sh(VERIFY, "The statistics tests.", "python3 -m unittest tests.test_stats -v 2>&1")
    r.sh(VERIFY, "All tests.", TESTS + " 2>&1").get(r"Ran \d+ tests in [\d.]+s\n\nOK", "tool_output")
    r.sh(VERIFY, "The text form as the scraper will see it, for the host of the incident.",
         "python3 - <<'EOF'\nfrom tests.support import URL, client\nc = client([(429, {'retry-after': '%s'}), (503, {}), (200, {})])\nc.get(URL)\nprint(c.stats.render())\nprint('slept', c.clock.slept)\nEOF" % after)
    r.subtask_end()
    r.say("The three items are fixed and all tests pass: the bucket is capped (%s), `Retry-After` is honoured in seconds in any case of letters (%s), and 429 is counted as `%s` (%s)." % (bucket_no, after_no, counter, stats_no), VERIFY)
    r.user("Great. [[goal|Now write one end-to-end regression test that replays the incident]], in tests/test_incident.py. It must fail on the old code. "
           "And [[constraint:C5:tests|no test may really sleep]].")
    r.read(EXPLORE, "There is a fake clock; I look at how the tests get a client.", "tests/support.py")
    r.read(EXPLORE, "And what the fake clock records.", "fetchq/clock.py")
    r.sh(IMPLEMENT, "The replay: %s requests at once after an idle night, then a 429 with the header of the report." % sent, """cat > tests/test_incident.py <<'EOF'
\"\"\"Replays incident 2291, see docs/incident-2291.md.\"\"\"
import unittest

from tests.support import HOST, URL, client

NIGHT_S = 10 * 3600


class IncidentTest(unittest.TestCase):
    def test_no_flood_after_an_idle_night(self):
        c = client([(200, {})] * 42)
        c.get(URL)
        c.clock.time += NIGHT_S
        start = c.clock.now()
        sent_at = []
        for _ in range(%s):
            c.get(URL)
            sent_at.append(c.clock.now() - start)
        self.assertLessEqual(sum(1 for t in sent_at if t < 1.0), c.settings.burst + c.settings.per_host)

    def test_retry_after_is_waited_for(self):
        c = client([(429, {"Retry-After": "%s"}), (200, {})])
        c.get(URL)
        self.assertEqual(c.clock.slept, [%s.0])
        self.assertEqual(c.stats.value("throttled", HOST), 1)
        self.assertEqual(c.stats.value("failed", HOST), 0)


if __name__ == "__main__":
    unittest.main()
EOF
python3 -m unittest tests.test_incident 2>&1""" % (sent, after, after))
    r.sh(VERIFY, "It passes now; it must fail on the old code. I take the sources back to the import for a moment.",
         "git stash push -q fetchq && python3 -m unittest tests.test_incident 2>&1 | grep -E '^(FAIL|ERROR|Ran|[A-Z][a-z]+Error|FAILED)'; git stash pop -q; git status --short")
    r.sh(VERIFY, "Both tests fail there, and the stash is back. Nothing sleeps?", "time python3 -m unittest tests.test_incident >/dev/null 2>&1; grep -n 'SystemClock\\|time.sleep' tests/*.py" .replace("time python3", "python3"), fails=True)
    r.subtask_end()
    r.say("tests/test_incident.py replays the flood and the wait; both tests fail on the old code and pass now. Only FakeClock is used.", VERIFY)
    r.user("Another thing from the review of the incident. Operators raised `max_attempts` to 9 through the environment and got nothing for it. [[goal|Find out why more attempts do not help and tell me; change code only if it is a bug.]]")
    r.sh(DEBUG, "Environment variables win over the file, with the prefix from the settings page. I try it with %sMAX_ATTEMPTS." % prefix,
         "%sMAX_ATTEMPTS=9 python3 -c \"from fetchq import load_settings; print(load_settings('fetchq.ini'))\"" % prefix)
    r.sh(DEBUG, "The setting arrives. So what happens to nine attempts against a server that answers 503?",
         "python3 - <<'EOF'\nfrom tests.support import URL, client\nfrom fetchq import FetchError\nfor n in (4, 6, 9, 12):\n    c = client([(503, {})] * 20, max_attempts=n)\n    try:\n        c.get(URL)\n    except FetchError as e:\n        print(n, type(e).__name__, '|', e, '| slept', c.clock.slept, 'sum', round(sum(c.clock.slept), 3))\nEOF")
    w = r.sh(DEBUG, "The waits grow to the cap, then stay there. I compute at which attempt the sum of waits passes the total time.",
             "python3 - <<'EOF'\nfrom fetchq import load_settings\nfrom fetchq.retry import backoff_ms\ns = load_settings(environ={})\ntotal = 0\nfor n in range(1, 14):\n    total += backoff_ms(n, s)\n    print('after attempt %2d wait %4d ms, total %6.3f s%s' % (n, backoff_ms(n, s), total / 1000, '  <- beyond timeout_s' if total > s.timeout_s * 1000 else ''))\nEOF")
    last = w.get(r"after attempt +(\d+) wait .*<- beyond timeout_s", "tool_output")
    r.sh(DEBUG, "So attempt %s is the last that fits for a server that answers at once; nine fit easily. Then the operators saw something else: perhaps 429 with a long wish." % last,
         "python3 - <<'EOF'\nfrom tests.support import URL, client\nfrom fetchq import FetchError\nc = client([(429, {'Retry-After': '%s'})] * 20, max_attempts=9)\ntry:\n    c.get(URL)\nexcept FetchError as e:\n    print(type(e).__name__, '|', e, '| slept', c.clock.slept, '| sent', c.stats.render())\nEOF" % after)
    r.say("It is no bug. With `Retry-After: %s` four waits make 28 s, and a fifth would pass the total timeout of 30 s, so `Deadline` is raised after 5 requests whatever `max_attempts` says. "
          "For plain 503 nine attempts do fit. Since the timeout has to stay at 30 s, I changed nothing." % after, DEBUG)
    r.user("Understood. Then say so in docs/SETTINGS.md, and [[goal|prepare the release: version 2.4.2]] in fetchq/__init__.py and a CHANGES.md that names the three tickets. "
           "[[constraint:C6:format|One line per ticket, newest version first]].")
    v = r.sh(EXPLORE, "Where does the version stand?", "git grep -n '2\\.4\\.1\\|__version__'")
    old = v.get(r'__version__ = "(2\.4\.1)"', "fact")
    r.edit(IMPLEMENT, "Only there.", "fetchq/__init__.py", '"%s"' % old, '"2.4.2"')
    r.superseded("version", old, "2.4.2")
    r.edit(DOCUMENT, "The settings page gets a sentence under the table, with the numbers found above.", "docs/SETTINGS.md",
           "Environment variables of the form", "`max_attempts` is an upper limit: no wait may pass `timeout_s`. With `Retry-After: %s` a request\n"
           "ends with `Deadline` after 5 requests, whatever `max_attempts` says; without the header the backoff\nlets about %s attempts fit.\n\nEnvironment variables of the form" % (after, last))
    r.sh(DOCUMENT, "Now CHANGES.md: one line per ticket.", "cat > CHANGES.md <<'EOF'\n# Changes\n\n## 2.4.2\n\n- %s: a bucket does not grow past `burst` in idle time\n- %s: `Retry-After` is honoured in seconds, above `max_delay_ms` too, and in any case of letters\n- %s: status 429 is counted as `%s`, not as a failure\nEOF\ncat CHANGES.md" % (bucket_no, after_no, stats_no, counter))
    r.sh(VERIFY, "Does the new version show, and are the public names the same?", "python3 -c 'import fetchq; print(fetchq.__version__, fetchq.__all__)'; git diff fetchq/__init__.py")
    r.sh(REFACTOR, "While I am here: are there unused imports left by my edits?",
         "python3 - <<'EOF'\nimport ast, glob\nfor f in sorted(glob.glob('fetchq/*.py') + glob.glob('tests/*.py')):\n    tree = ast.parse(open(f).read(), feature_version=(3, 8))\n    names = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}\n    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}\n    rest = sorted(names - used)\n    if rest and not f.endswith('__init__.py'):\n        print(f, 'imports but does not use', rest)\nEOF\necho checked")
    r.edit(REFACTOR, "`URL` in tests/test_bucket.py was unused before me; it is one word in a file of this task's tests, so I take it out.", "tests/test_bucket.py",
           "from tests.support import URL, client\n", "from tests.support import client\n")
    r.sh(VERIFY, "The complete suite.", TESTS + " -v 2>&1")
    r.sh(VERIFY, "The constraints one by one: timeout, public names, standard library only.",
         "grep -n 'timeout_s' fetchq/config.py fetchq.ini docs/SETTINGS.md; grep -hn '^import\\|^from' fetchq/*.py | sed 's/^[0-9]*://' | sort -u; git diff HEAD --stat")
    r.subtask_end()
    r.say("Release 2.4.2 is prepared: version raised, CHANGES.md lists %s, %s and %s, and docs/SETTINGS.md explains why more attempts do not help within 30 s. "
          "The timeout and the public names are unchanged, and only the standard library is used." % (bucket_no, after_no, stats_no), DOCUMENT)
    r.user("One more from the operators: some hosts send `Retry-After` as an HTTP date and we ignore it. [[goal|Support dates there as well, ticket FQ-103, still in 2.4.2.]] "
           "[[constraint:C7:api|No new public names, and `delay_ms` must stay callable with three arguments]], other teams patch it in their tests.")
    r.sh(DEBUG, "What happens with a date now?", "python3 - <<'EOF'\nfrom fetchq import load_settings\nfrom fetchq.retry import delay_ms\ns = load_settings(environ={})\nprint(delay_ms(1, {'Retry-After': 'Wed, 21 Jun 2023 07:28:07 GMT'}, s))\nEOF")
    r.sh(EXPLORE, "It falls back to the backoff of 250 ms, the same harm as in the incident. The standard library can parse such dates; how does it behave on garbage?",
         "python3 - <<'EOF'\nfrom email.utils import parsedate_to_datetime\nfor text in ('Wed, 21 Jun 2023 07:28:07 GMT', 'soon', '', 'Wed, 99 Jun 2023 07:28:07 GMT'):\n    try:\n        print(repr(text), parsedate_to_datetime(text).timestamp())\n    except (TypeError, ValueError) as e:\n        print(repr(text), 'no date')\nEOF")
    r.sh(EXPLORE, "Old Pythons raise TypeError for garbage and newer ones ValueError, so both are caught. A date needs the time of day, and the clocks have only a monotonic one.", "grep -n 'def \\|class ' fetchq/clock.py; grep -n 'delay_ms' fetchq/client.py fetchq/retry.py tests/test_retry.py tests/test_incident.py")
    r.edit(IMPLEMENT, "[[decision|The clocks get a method `wall`, so that tests stay in control of the date.]]", "fetchq/clock.py", "    def sleep(self, seconds):\n        time.sleep(seconds)\n",
           "    def wall(self):\n        return time.time()\n\n    def sleep(self, seconds):\n        time.sleep(seconds)\n")
    r.edit(IMPLEMENT, "For the fake clock the wall time is its own time plus a fixed start.", "fetchq/clock.py", "    def now(self):\n        return self.time\n",
           "    def now(self):\n        return self.time\n\n    def wall(self):\n        return 1687332480.0 + self.time - 1000.0  # starts on 2023-06-21 07:28:00 UTC\n")
    r.sh(IMPLEMENT, "`delay_ms` gets a fourth parameter with a default; without it a date is ignored as before.", """python3 - <<'EOF'
p = 'fetchq/retry.py'
s = open(p).read()
s = s.replace('def delay_ms(attempt, headers, settings):', 'def delay_ms(attempt, headers, settings, wall=None):')
old = '        return int(wish) * 1000\\n'
assert s.count(old) == 1
s = s.replace(old, old + '''    if wish is not None and wall is not None:
        try:
            return max(0, round((parsedate_to_datetime(wish).timestamp() - wall) * 1000))
        except (TypeError, ValueError):
            pass
''')
s = s.replace('again, and after how long.\"\"\"\\n', 'again, and after how long.\"\"\"\\nfrom email.utils import parsedate_to_datetime\\n')
open(p, 'w').write(s)
EOF
git diff HEAD -- fetchq/retry.py""")
    r.edit(IMPLEMENT, "The client passes the wall time.", "fetchq/client.py", "response.headers, self.settings) / 1000", "response.headers, self.settings, self.clock.wall()) / 1000")
    r.sh(IMPLEMENT, "Tests: a date %s s ahead, a date in the past, garbage, and three arguments." % after, """python3 - <<'EOF'
p = 'tests/test_retry.py'
s = open(p).read()
mark = '\\n\\nif __name__ == "__main__":'
assert s.count(mark) == 1
open(p, 'w').write(s.replace(mark, '''

class DateTest(unittest.TestCase):
    DATE = {"Retry-After": "Wed, 21 Jun 2023 07:28:07 GMT"}

    def test_client_waits_until_the_date(self):
        c = client([(429, self.DATE), (200, {})])
        c.get(URL)
        self.assertEqual(c.clock.slept, [%s.0])

    def test_past_date_means_no_wait(self):
        self.assertEqual(delay_ms(1, self.DATE, SETTINGS, wall=1700000000.0), 0)

    def test_garbage_and_three_arguments_fall_back(self):
        self.assertEqual(delay_ms(1, {"Retry-After": "soon"}, SETTINGS, wall=0.0), 250)
        self.assertEqual(delay_ms(1, self.DATE, SETTINGS), 250)
''' + mark))
EOF
python3 -m unittest tests.test_retry 2>&1""" % after)
    r.edit(DOCUMENT, "One line per ticket, so FQ-103 gets its own.", "CHANGES.md", "- %s: status 429" % stats_no, "- FQ-103: `Retry-After` may be an HTTP date\n- %s: status 429" % stats_no)
    r.sh(VERIFY, "Everything once more, with the replay of incident 2291.", TESTS + " 2>&1; cat CHANGES.md; git diff --quiet HEAD -- fetchq.ini && grep -n timeout_s fetchq.ini")
    r.subtask_end()
    r.say("Dates work too (FQ-103, listed in CHANGES.md under 2.4.2). `delay_ms` can still be called with three arguments; then a date is ignored, as before. All tests pass.", VERIFY)
    r.user("Last: write me two sentences for team harbor, so that they know which counter to read and since which version.")
    r.say("For team %s: since fetchq 2.4.2 every answer with status 429 is counted in `%s` with the label `host`, for instance `%s`. It no longer adds to `fetchq_failures_total`, so an alarm on that counter will read lower than before." % (team, counter, host), DOCUMENT)
    r.probe("constraint", "Which total timeout had to be kept?", "30 s", "40 s", "7 s", "60 s")
    r.probe("artifact", "Under which name is status 429 counted?", "fetchq_throttled_total", "fetchq_retries_total", "fetchq_429_total")
    r.probe("decision", "Where is the level of the bucket capped?", "in `_refill`", "in `wait_for`", "in the constructor")
    r.probe("continuation", "Which version was prepared for release?", "2.4.2", "2.4.1", "2.5.0")
    r.finish("Submitted", TESTS)
    return r


def tidepool_fetchq_14():
    """A file setting that wins over the environment. mini, short."""
    r = Run("tidepool__fetchq-14", "mini", "mini", PROJECT, """
FETCHQ_PER_HOST=3 has no effect when fetchq.ini sets per_host. docs/SETTINGS.md says that the environment wins. Also an unknown
key in the file is silently ignored, while it used to be an error that names the file and the key; a typo cost us an evening.

Fix both. timeout_s must stay at 30 in fetchq.ini. Do not touch the existing tests, but add one for the unknown key.
""", plant=[
        ("fetchq/config.py", """            if key not in DEFAULTS:
                raise ValueError("%s: unknown setting %r" % (path, key))
            values[key] = int(text)
    for key in DEFAULTS:
        name = "FETCHQ_" + key.upper()
        if name in environ:
            values[key] = int(environ[name])
""", """            if key in DEFAULTS:
                values[key] = int(text)
    for key in DEFAULTS:
        name = "FETCHQ_" + key.upper()
        if name in environ and values[key] == DEFAULTS[key]:
            values[key] = int(environ[name])
"""), ("fetchq.ini", "per_host = 6", "per_host = 8"), ("fetchq.ini", "burst = 12", "burst = 16"), ("tests/test_config.py", "burst, 12)", "burst, 16)")])
    r.sh(EXPLORE, "I look at the repository first.", "git ls-files && cat docs/SETTINGS.md fetchq.ini")
    out = r.sh(EXPLORE, "The settings are read here:", "cat -n fetchq/config.py")
    line = out.get(r"^ +(\d+)\t.*environ and values")
    r.sh(VERIFY, "State of the tests.", TESTS + " 2>&1", fails=True)
    r.sh(DEBUG, "One failure, and it is the report. Line %s takes the environment only while the value is still the default. With the file untouched by the key, it works:" % line,
         "for k in FETCHQ_PER_HOST=3 FETCHQ_FACTOR=3 FETCHQ_BURST=5; do env $k python3 -c \"from fetchq import load_settings; print('$k', load_settings('fetchq.ini'))\"; done")
    r.sh(DEBUG, "FACTOR works since the file does not set it, the other two do not. Why was the comparison there? Perhaps someone relied on it.", "git grep -n 'environ' -- '*.py' '*.md'")
    r.sh(IMPLEMENT, "Nothing relies on it. I remove the comparison.", "sed -i 's/ and values\\[key\\] == DEFAULTS\\[key\\]:/:/' fetchq/config.py && git diff")
    r.sh(VERIFY, "Again the three variables.", "for k in FETCHQ_PER_HOST=3 FETCHQ_FACTOR=3 FETCHQ_BURST=5; do env $k python3 -c \"from fetchq import load_settings; print('$k', load_settings('fetchq.ini'))\"; done")
    r.sh(DEBUG, "Second part: an unknown key. I reproduce it with a typo in a copy of the file.", "sed 's/per_host/per_hots/' fetchq.ini > /tmp/typo.ini && python3 -c \"from fetchq import load_settings; print(load_settings('/tmp/typo.ini', environ={}))\"")
    r.sh(IMPLEMENT, "The typo is swallowed and the default is used. I make it a ValueError with file and key.", """python3 - <<'EOF'
p = 'fetchq/config.py'
s = open(p).read()
old = '''            if key in DEFAULTS:
                values[key] = int(text)
'''
new = '''            if key not in DEFAULTS:
                raise ValueError("%s: unknown setting %r" % (path, key))
            values[key] = int(text)
'''
assert s.count(old) == 1
open(p, 'w').write(s.replace(old, new))
EOF
python3 -c "from fetchq import load_settings; print(load_settings('/tmp/typo.ini', environ={}))" """, fails=True)
    r.sh(VERIFY, "The error names file and key. A number that is no number?", "sed 's/= 8/= eight/' fetchq.ini > /tmp/word.ini && python3 -c \"from fetchq import load_settings; load_settings('/tmp/word.ini', environ={})\" 2>&1 | tail -n 1")
    r.sh(EXPLORE, "That was not asked for and stays. The test file:", "cat tests/test_config.py")
    r.sh(IMPLEMENT, "I add one test for the unknown key.", """python3 - <<'EOF'
p = 'tests/test_config.py'
s = open(p).read()
mark = '\\n\\nif __name__ == "__main__":'
assert s.count(mark) == 1
s = s.replace(mark, '''
    def test_unknown_key_names_file_and_key(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "typo.ini")
            with open(path, "w", encoding="utf-8") as handle:
                handle.write("[fetchq]\\\\nper_hots = 3\\\\n")
            with self.assertRaisesRegex(ValueError, "typo.ini: unknown setting 'per_hots'"):
                load_settings(path, environ={})
''' + mark)
s = s.replace("import os\\nimport unittest", "import os\\nimport tempfile\\nimport unittest")
open(p, 'w').write(s)
EOF
python3 -m unittest tests.test_config -v 2>&1""")
    r.sh(VERIFY, "All tests.", TESTS + " 2>&1")
    r.sh(VERIFY, "timeout_s was to stay at 30 in the file, and the file must be unchanged.", "grep -n timeout_s fetchq.ini && git status --short")
    r.sh(VERIFY, "Two files. I write the patch.", "git diff -- fetchq/config.py tests/test_config.py > patch.txt && cat patch.txt")
    r.submit("The environment wins again and a wrong key is an error; I hand it in.", TESTS)
    return r


SCRIPTS = [tidepool_fetchq_11, tidepool_fetchq_14]
