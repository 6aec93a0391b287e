"""owner fieldnotes, repository sensors: cleaning of CSV files."""
from engine import DEBUG, DOCUMENT, EXPLORE, IMPLEMENT, REFACTOR, VERIFY, Run

PROJECT = "fieldnotes__sensors"
CHECK = "python3 clean.py && python3 tools/validate.py"


def sub(path, old, new, then=""):
    """A command that replaces a text which occurs once, as an agent without an edit tool does it."""
    return ("python3 - <<'EOF'\np = %r\ns = open(p, encoding='utf-8').read()\nold = '''%s'''\nassert s.count(old) == 1, s.count(old)\n"
            "s = s.replace(old, '''%s''')\nopen(p, 'w', encoding='utf-8').write(s)\nEOF\n%s" % (path, old, new, then)).rstrip("\n")


def fieldnotes_sensors_1():
    """Nine rules, one fault after the other; then means, then a correction of the calibration. annotated, the longest run."""
    r = Run("fieldnotes__sensors-1", "plain", "annotated", PROJECT,
            "[[goal|Extend clean.py until out/clean.csv obeys all rules in docs/RULES.md (tools/validate.py must report 0 rules broken).]] "
            "[[constraint:C1:scope|Never edit anything in data/raw and do not change tools/validate.py]]. [[constraint:C2:dependencies|Standard library only]], "
            "[[constraint:C3:truth|and do not invent values: a reading that is wrong is emptied, not interpolated]]. Validate after each step so that I can follow it.",
            fixture="python3 tools/make_raw.py")
    r.sh(EXPLORE, "I look at what is there.", "git ls-files; cat README.md; cat clean.py")
    rules = r.read(EXPLORE, "The rules decide everything, so I read them in full.", "docs/RULES.md")
    for rule in ("R2 \\| time is UTC in the form 2023-01-31T09:00:00Z", "R4 \\| one row for each station and time",
                 "R5 \\| temp_c is a number with one decimal, -40\\.0 to 50\\.0, or empty", "R8 \\| flag is empty or one of: imputed, calibrated, suspect",
                 "R9 \\| a spike \\(more than 12 degrees from both neighbours in time\\) is emptied and flagged suspect"):
        rules.get(rule, "constraint")
    s1, s2 = rules.get(r"are (-999) and 6553\.5", "fact"), rules.get(r"are -999 and (6553\.5)", "fact")
    sun, day = rules.get(r"Station (KV-07) was mounted", "fact"), rules.get(r"in full sun until (2023-02-14)", "fact")
    off, cal = rules.get(r"before that day are (1\.8) degrees too", "fact"), rules.get(r"calibration note (CAL-\d+)", "fact")
    local, shift = rules.get(r"The logger of (FJ-02) runs on local time", "fact"), rules.get(r"local time, UTC\+(\d)", "fact")
    st = r.sh(EXPLORE, "And the stations.", "cat data/stations.json")
    fahr = st.get(r'"(LO-11)": \{.*"unit": "F"', "fact")
    serial = st.get(r'"LO-11".*"serial": "(SN-\d+)"', "fact")
    r.sh(EXPLORE, "Now the raw files, the beginning of each.", "wc -l data/raw/*.csv; head -n 8 data/raw/*.csv")
    r.sh(VERIFY, "The first version of clean.py as it is:", CHECK, fails=True)
    r.sh(DEBUG, "KeyError 'time' although all files begin with a column time. Probably an invisible character in one of them.", "for f in data/raw/*.csv; do echo $f; head -c 24 $f | od -c | head -n 2; tail -c 4 $f | od -c | head -n 1; done")
    r.sh(IMPLEMENT, "2023-03.csv has a byte order mark, and 2023-02.csv has CRLF line ends, which the csv module handles. utf-8-sig reads files with and without the mark.",
         sub("clean.py", 'with open(path, encoding="utf-8", newline="")', 'with open(path, encoding="utf-8-sig", newline="")', "python3 clean.py"))
    v = r.sh(VERIFY, "All files are read. Now the validator.", "python3 tools/validate.py", fails=True)
    v.get(r"\d+ rows, \d+ rules broken", "tool_output")
    # time and station
    r.sh(EXPLORE, "Every rule but one or two is broken. I begin with time and station. Which shapes of time are there?", "cut -d';' -f1 data/raw/*.csv | sed 's/[0-9]/9/g' | sort | uniq -c")
    r.sh(EXPLORE, "Two shapes. And the names of the stations?", "cut -d';' -f2 data/raw/*.csv | tr -d '\\r' | sort | uniq -c")
    r.sh(IMPLEMENT, "Upper and lower case. [[decision|Time gets its own function, which tries both shapes.]] The offset of %s comes next, separately." % local,
         sub("clean.py", "def clean(row, stations):", '''FORMATS = ("%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M")


def parse_time(text):
    for form in FORMATS:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            pass
    raise ValueError("unknown form of time: %r" % text)


def clean(row, stations):''', "sed -i 's/^import os$/import os\\nfrom datetime import datetime/' clean.py && sed -n 1,40p clean.py"))
    r.sh(IMPLEMENT, "Then `clean` uses it.", sub("clean.py", '    return {"time": row["time"], "station": row["station"], "temp_c"',
         '    time, station = parse_time(row["time"]), row["station"].upper()\n    return {"time": time.strftime("%Y-%m-%dT%H:00:00Z"), "station": station, "temp_c"', CHECK), fails=True)
    r.sh(DEBUG, "R2 and R3 are gone. The clock of %s: at which hours does each station report?" % local, "cut -d, -f1,2 out/clean.csv | sed 's/.*T\\(..\\):00:00Z,/\\1 /' | sort | uniq -c | sort -k3,3 -k2,2")
    r.sh(IMPLEMENT, "%s reports at 05, 11, 17, 23 and the others at 03, 09, 15, 21: it is %s hours ahead, as the rules say." % (local, shift),
         sub("clean.py", '    return {"time": time.strftime', '    time -= UTC_OFFSET.get(station, timedelta(0))\n    return {"time": time.strftime',
             "sed -i 's/^from datetime import datetime$/from datetime import datetime, timedelta/; s/^FORMATS = /UTC_OFFSET = {\"%s\": timedelta(hours=%s)}\\nFORMATS = /' clean.py && python3 clean.py" % (local, shift)))
    r.sh(VERIFY, "The hours again; they should be the same four for all.", "cut -d, -f1,2 out/clean.csv | sed 's/.*T\\(..\\):00:00Z,/\\1 /' | sort | uniq -c | sort -k3,3 -k2,2; python3 tools/validate.py | grep -v line", fails=False)
    r.subtask_end()
    # temperature
    r.sh(EXPLORE, "Time and station are done. The temperatures: which shapes, and which odd values?", "cut -d, -f3 out/clean.csv | sed 's/[0-9]/9/g' | sort | uniq -c | sort -rn; python3 -c \"\nimport csv\nfor r in csv.DictReader(open('out/clean.csv')):\n    if r['temp_c'] in ('%s', '%s'):\n        print(r['time'], r['station'], r['temp_c'])\"" % (s1, s2))
    r.sh(DEBUG, "Commas are quoted by the CSV writer, which confuses cut. Who writes commas?", "python3 -c \"\nimport csv, collections\nc = collections.Counter((r['station'], r['time'][:7]) for r in csv.DictReader(open('out/clean.csv')) if ',' in r['temp_c'])\nprint(c)\"")
    r.sh(IMPLEMENT, "Only %s in March. [[decision|Sentinels become empty before any arithmetic]], otherwise %s in Fahrenheit would turn into a number that looks real." % (sun, s1),
         sub("clean.py", "def clean(row, stations):", '''SENTINELS = {%s, %s}


def parse_temp(text, unit):
    """Degrees Celsius, or None if there was no reading."""
    value = float(text.replace(",", "."))
    if value in SENTINELS:
        return None
    return (value - 32) * 5 / 9 if unit == "F" else value


def clean(row, stations):''' % (s1, s2), sub("clean.py", '"temp_c": row["temp"],', '"temp_c": "" if temp is None else "%.1f" % temp,', sub("clean.py", "    time -= UTC_OFFSET", '    temp = parse_temp(row["temp"], stations[station]["unit"])\n    time -= UTC_OFFSET', CHECK))), fails=True)
    r.sh(VERIFY, "R5 is clean. Is the conversion of %s believable? Means by station and month:" % fahr, "python3 - <<'EOF'\nimport csv\nfrom collections import defaultdict\nd = defaultdict(list)\nfor r in csv.DictReader(open('out/clean.csv')):\n    if r['temp_c']:\n        d[r['station'], r['time'][:7]].append(float(r['temp_c']))\nfor k in sorted(d):\n    print(*k, 'n', len(d[k]), 'mean %.2f' % (sum(d[k]) / len(d[k])), 'min', min(d[k]), 'max', max(d[k]))\nEOF")
    r.sh(DEBUG, "The means are plausible, the maxima are not: those are the spikes of R9. -0.0 might appear after rounding; does it?", "grep -n ',-0\\.0,' out/clean.csv | head -n 5; grep -c ',-0\\.0,' out/clean.csv", fails=True)
    r.sh(IMPLEMENT, "Not in these files, but a reading of -0.04 would be printed so, and it breaks comparisons of text; adding 0.0 after rounding removes it.", sub("clean.py", '"%.1f" % temp', '"%.1f" % (round(temp, 1) + 0.0)', "python3 clean.py && grep -c ',-0\\.0,' out/clean.csv"), fails=True)
    r.sh(IMPLEMENT, "Next the sun on %s: %s degrees too high before %s (%s), with the flag calibrated." % (sun, off, day, cal),
         sub("clean.py", "    time -= UTC_OFFSET.get(station, timedelta(0))\n", '''    time -= UTC_OFFSET.get(station, timedelta(0))
    flag = ""
    if station == SUNNY_STATION and time < SUNNY_UNTIL and temp is not None:
        temp, flag = temp - SUNNY_OFFSET, "calibrated"
''', sub("clean.py", '"flag": ""}', '"flag": flag}', sub("clean.py", "FORMATS = ", 'SUNNY_STATION, SUNNY_UNTIL, SUNNY_OFFSET = "%s", datetime(%d, %d, %d), %s  # %s\nFORMATS = ' % ((sun,) + tuple(int(x) for x in day.split("-")) + (off, cal)), CHECK))), fails=True)
    r.sh(VERIFY, "The change must begin and end at the right row: the last calibrated one and the first without the flag.", "grep %s out/clean.csv | grep -n calibrated | tail -n 2; grep %s out/clean.csv | grep -v calibrated | head -n 6; grep -c calibrated out/clean.csv" % (sun, sun))
    r.subtask_end()
    # humidity, duplicates, order
    r.sh(EXPLORE, "Humidity: what is outside of 0..100?", "cut -d';' -f4 data/raw/*.csv | tr -d '\\r' | sort -n | awk '$1 > 100' | uniq -c")
    r.sh(IMPLEMENT, "Values from 102 to 107: a saturated sensor, but the rules say a whole number up to 100 or empty, and you said that wrong readings are emptied. [[decision|So they are emptied, not cut to 100.]]",
         sub("clean.py", '"humidity": row["humidity"]', '"humidity": row["humidity"] if 0 <= int(row["humidity"]) <= 100 else ""', CHECK), fails=True)
    r.sh(DEBUG, "R4, the double rows. Are the doubles identical in all columns or do they contradict each other?", "python3 - <<'EOF'\nimport csv\nfrom collections import defaultdict\nd = defaultdict(list)\nfor r in csv.DictReader(open('out/clean.csv')):\n    d[r['time'], r['station']].append(tuple(r.values()))\ndouble = {k: v for k, v in d.items() if len(v) > 1}\nprint(len(double), 'keys with more than one row; contradicting:', sum(1 for v in double.values() if len(set(v)) > 1))\nfor k in sorted(double)[:5]:\n    print(k, double[k])\nEOF")
    r.sh(IMPLEMENT, "All identical, so the first one is kept; a contradiction would be an error worth stopping for. Sorting goes in the same place.",
         sub("clean.py", '    counts["written"] = len(rows)\n', '''    unique = {}
    for row in rows:
        key = row["time"], row["station"]
        if unique.setdefault(key, row) != row:
            raise SystemExit("contradicting rows for %s %s" % key)
    counts["duplicates"] = len(rows) - len(unique)
    rows = [unique[key] for key in sorted(unique)]
    counts["written"] = len(rows)
''', CHECK), fails=True).get(r"R9: \d+ rows", "tool_output")
    r.subtask_end()
    # spikes
    r.sh(EXPLORE, "Only R9 is left. I look at the table as a whole once, before the spikes.", "cat out/clean.csv")
    r.sh(DEBUG, "Too long to read, the middle is cut. For the spikes I want to see the whole series of one station, with the steps.", "grep FJ-02 out/clean.csv | awk -F, 'BEGIN { last = \"\" } { step = (last != \"\" && $3 != \"\") ? sprintf(\"%+.1f\", $3 - last) : \"\"; print NR, $1, $3, step; if ($3 != \"\") last = $3 }'")
    r.sh(EXPLORE, "Spikes stand alone and come back at once. How does the validator define neighbours: calendar or present readings?", "grep -n 'series\\|zip' tools/validate.py")
    r.sh(IMPLEMENT, "Neighbours are the readings that are present, of the same station. A row emptied changes the neighbours of the next one, but a true neighbour of a spike is no spike itself, so one pass over the original values is enough.",
         sub("clean.py", "def main():\n", '''SPIKE = 12


def mark_spikes(rows):
    """Empties readings that differ by more than SPIKE degrees from both neighbours in time."""
    by_station = {}
    for row in rows:
        if row["temp_c"]:
            by_station.setdefault(row["station"], []).append(row)
    spikes = []
    for series in by_station.values():
        for before, row, after in zip(series, series[1:], series[2:]):
            if all(abs(float(row["temp_c"]) - float(other["temp_c"])) > SPIKE for other in (before, after)):
                spikes.append(row)
    for row in spikes:
        row["temp_c"], row["flag"] = "", "suspect"
    return len(spikes)


def main():
''', sub("clean.py", '    counts["written"] = len(rows)\n', '    counts["spikes"] = mark_spikes(rows)\n    counts["written"] = len(rows)\n', "python3 clean.py; python3 tools/validate.py; true")))
    r.sh(VERIFY, "Let me see what was emptied, and what the raw files have there, to be sure that nothing real went.", "grep suspect out/clean.csv")
    r.sh(DEBUG, "All these come from jumps. Is the first or last reading of a station a spike? It has one neighbour only and is never tested.", "for s in FJ-02 KV-07 LO-11 RV-19; do grep $s out/clean.csv | head -n 2; grep $s out/clean.csv | tail -n 2; done")
    r.sh(VERIFY, "The ends look normal. Full state:", CHECK + " && cat out/report.json && git status --short").get(r"0 rules broken", "tool_output")
    r.subtask_end()
    r.say("out/clean.csv obeys all nine rules. Emptied were the sentinels, humidity above 100 and the spikes (flag suspect); %s is corrected by %s degrees before %s. data/raw and the validator are untouched." % (sun, off, day), VERIFY)
    r.user("Very good. [[goal|Now add monthly.py, which writes out/monthly.csv: station, month, n, mean temperature, serial number of the logger.]] "
           "[[constraint:C4:scope|Rows with the flag suspect do not count]], [[constraint:C5:format|means have two decimals and months look like 2023-01]].")
    r.sh(IMPLEMENT, "The serial numbers are in stations.json. Suspect rows have an empty temperature anyway, but I test the flag explicitly, since that is the rule you gave.", """cat > monthly.py <<'EOF'
\"\"\"Monthly means from out/clean.csv, written to out/monthly.csv.\"\"\"
import csv
import json


def monthly(rows, stations):
    values = {}
    for row in rows:
        if row["flag"] != "suspect" and row["temp_c"]:
            values.setdefault((row["station"], row["time"][:7]), []).append(float(row["temp_c"]))
    for (station, month), temps in sorted(values.items()):
        yield [station, month, len(temps), "%.2f" % (sum(temps) / len(temps)), stations[station]["serial"]]


def main():
    with open("data/stations.json", encoding="utf-8") as handle:
        stations = json.load(handle)
    with open("out/clean.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    with open("out/monthly.csv", "w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\\n")
        writer.writerow(["station", "month", "n", "mean_temp_c", "serial"])
        writer.writerows(monthly(rows, stations))


if __name__ == "__main__":
    main()
EOF
python3 monthly.py && cat out/monthly.csv""")
    r.sh(VERIFY, "I check one mean by another way, with awk: %s in February." % sun, "awk -F, '$2 == \"%s\" && $1 ~ /^2023-02/ && $3 != \"\" { n++; s += $3 } END { printf \"%%d %%.2f\\n\", n, s / n }' out/clean.csv; grep '%s,2023-02' out/monthly.csv" % (sun, sun))
    r.sh(VERIFY, "And the serial number of %s must be %s." % (fahr, serial), "grep -c '%s,.*,%s$' out/monthly.csv" % (fahr, serial))
    r.sh(VERIFY, "Tests for both scripts: forms of time, sentinels, Fahrenheit, spikes, suspect rows.", """mkdir -p tests && cat > tests/test_clean.py <<'EOF'
import unittest
from datetime import datetime

from clean import clean, mark_spikes, parse_temp, parse_time
from monthly import monthly

STATIONS = {"KV-07": {"unit": "C", "serial": "S1"}, "FJ-02": {"unit": "C", "serial": "S2"}}


def raw(time, station, temp="1.0", humidity="50"):
    return {"time": time, "station": station, "temp": temp, "humidity": humidity}


class CleanTest(unittest.TestCase):
    def test_times(self):
        self.assertEqual(parse_time("2023-02-03 09:00"), parse_time("03.02.2023 09:00"))

    def test_local_time(self):
        self.assertEqual(clean(raw("2023-01-01 05:00", "fj-02"), STATIONS)["time"], "2023-01-01T03:00:00Z")

    def test_no_reading(self):
        self.assertIsNone(parse_temp("%s", "F"))
        self.assertIsNone(parse_temp("%s", "C"))

    def test_fahrenheit_and_comma(self):
        self.assertAlmostEqual(parse_temp("32,0", "F"), 0.0)

    def test_calibration_ends(self):
        rows = [clean(raw(day, "KV-07", "5.0"), STATIONS) for day in ("2023-02-13 21:00", "2023-02-14 03:00")]
        self.assertEqual([(row["temp_c"], row["flag"]) for row in rows], [("3.2", "calibrated"), ("5.0", "")])

    def test_spike(self):
        rows = [{"station": "KV-07", "time": "2023-01-0%%d" %% n, "temp_c": t, "flag": ""} for n, t in enumerate(("1.0", "31.0", "2.0"), 1)]
        self.assertEqual(mark_spikes(rows), 1)
        self.assertEqual([m[2:4] for m in monthly(rows, STATIONS)], [[2, "1.50"]])


if __name__ == "__main__":
    unittest.main()
EOF
python3 -m unittest discover -s tests -t . 2>&1""" % (s1, s2), fails=True)
    r.sh(DEBUG, "With `-t .` the folder has to be a package. An empty __init__.py makes it one; also the import of datetime in the test is not used.",
         "touch tests/__init__.py && sed -i '/^from datetime import datetime$/d' tests/test_clean.py && python3 -m unittest discover -s tests -t . 2>&1")
    r.subtask_end()
    r.say("monthly.py is there with tests; suspect rows do not count.", VERIFY)
    r.user("News from the calibration lab: note CAL-57 replaces %s. The correct figure for the sun is [[constraint:C6:calibration|1.6 degrees, and it ends on 2023-02-11]], not on the 14th. [[goal|Please apply it everywhere and tell me how the February mean of that station changes.]]" % cal)
    r.superseded("offset of KV-07 in degrees", off, "1.6")
    r.superseded("end of the sun on KV-07", day, "2023-02-11")
    r.superseded("calibration note", cal, "CAL-57")
    g = r.sh(EXPLORE, "Everything that mentions the old note, date or figure:", "git grep -n --untracked '%s\\|SUNNY\\|2023-02-1[34]\\|1\\.8' -- ':!data' " % cal)
    g.get(r"clean\.py:\d+:SUNNY_STATION.*$", "tool_output")
    before = r.sh(VERIFY, "The February mean before the change, to compare later.", "grep '%s,2023-0' out/monthly.csv" % sun).get(r"2023-02,\d+,([\d.]+)", "tool_output")
    r.sh(IMPLEMENT, "The constants first.", "sed -i 's/datetime(2023, 2, 14), %s  # %s/datetime(2023, 2, 11), 1.6  # CAL-57/' clean.py && git diff clean.py | grep SUNNY; grep -n SUNNY_STATION, clean.py" % (off, cal))
    r.sh(DOCUMENT, "Then the rules, which are the reference for readers.", sub("docs/RULES.md", "in full sun until %s; its readings before that day are %s degrees too\nhigh (calibration note %s)" % (day, off, cal),
         "in full sun until 2023-02-11; its readings before that day are 1.6 degrees too\nhigh (calibration note CAL-57)", "git diff docs"))
    r.sh(VERIFY, "The tests should notice, because one of them has the old border.", "python3 -m unittest discover -s tests -t . 2>&1", fails=True)
    r.sh(IMPLEMENT, "As expected: the test for the end of the calibration. New border, new figure.",
         "sed -i 's/\"2023-02-13 21:00\", \"2023-02-14 03:00\"/\"2023-02-10 21:00\", \"2023-02-11 03:00\"/; s/(\"3.2\", \"calibrated\")/(\"3.4\", \"calibrated\")/' tests/test_clean.py && python3 -m unittest discover -s tests -t . 2>&1")
    r.sh(VERIFY, "Clean, validate, means.", CHECK + " && python3 monthly.py && grep '%s' out/monthly.csv" % sun)
    after = r.sh(VERIFY, "Which rows make the difference, the calibrated ones in February:", "grep '%s' out/clean.csv | grep '^2023-02-\\(0\\|1[0-4]\\)'; grep '%s,2023-02' out/monthly.csv" % (sun, sun)).get(r"2023-02,\d+,([\d.]+)", "tool_output")
    r.superseded("February mean of KV-07", before, after)
    r.sh(DOCUMENT, "README.md does not know monthly.py yet.", sub("README.md", "    python3 tools/validate.py        # checks out/clean.csv against docs/RULES.md\n",
         "    python3 tools/validate.py        # checks out/clean.csv against docs/RULES.md\n    python3 monthly.py               # writes out/monthly.csv, without suspect rows\n", "git diff README.md"))
    r.sh(VERIFY, "Last check of the constraints: raw data and validator untouched, standard library only.", "git status --short; git diff --quiet -- data tools && echo 'data and tools untouched'; grep -hn '^import\\|^from' clean.py monthly.py | sort -t: -k2 -u")
    r.subtask_end()
    r.say("CAL-57 is applied in clean.py, docs/RULES.md and the tests. The February mean of %s goes from %s to %s degrees. Part of the change is the smaller offset of 1.6, and readings from 2023-02-11 on are no longer corrected. "
          "Humidity, %s (local time, UTC+%s) and %s (Fahrenheit, logger %s) are not affected, and the validator still reports 0 rules broken." % (sun, before, after, local, shift, fahr, serial), VERIFY)
    r.probe("goal", "What was the last thing the user asked for?", "to apply CAL-57 and report the February mean", "to add monthly.py", "to interpolate the spikes")
    r.probe("constraint", "Up to which day does the correction of KV-07 hold now?", "2023-02-11", "2023-02-14", "2023-02-28")
    r.probe("artifact", "What is the serial number of the logger that reports in Fahrenheit?", serial, "SN-20417", "SN-20551", "SN-20608")
    r.probe("decision", "What happens with a humidity of 104?", "it is emptied", "it is cut to 100", "the row is dropped")
    r.probe("continuation", "Which script writes the means?", "monthly.py", "tools/validate.py", "means.py")
    r.finish("Submitted", CHECK)
    return r


def fieldnotes_sensors_4():
    """A question about the data, answered with a script. mini, short."""
    r = Run("fieldnotes__sensors-4", "mini", "mini", PROJECT, """
Add tools/gaps.py: for each station, list the sentinel readings in data/raw (station, time as written in the file, value), and end
with one line "TOTAL n". The sentinel values are defined in docs/RULES.md. Do not change any other file. Python 3.8, standard library.
""", fixture="python3 tools/make_raw.py")
    r.sh(EXPLORE, "I look around first.", "git ls-files; cat docs/RULES.md data/stations.json")
    r.sh(EXPLORE, "The raw files:", "head -n 4 data/raw/*.csv; wc -l data/raw/*.csv")
    n = r.sh(EXPLORE, "How many lines hold one of the two values, by a plain grep? That is my reference for the script.", "grep -c ';\\(-999\\|6553[.,]5\\);' data/raw/*.csv")
    total = sum(int(n.get(r"2023-0%d\.csv:(\d+)" % m)) for m in (1, 2, 3))
    r.sh(EXPLORE, "%d in all. March uses a decimal comma for one station; is a sentinel among those?" % total, "grep -n '6553,5' data/raw/*.csv; grep -n ';[0-9-]*,[0-9];' data/raw/2023-03.csv | head -n 3", fails=False)
    r.sh(IMPLEMENT, "So the script has to read commas as well, and a byte order mark in case there is one.", """cat > tools/gaps.py <<'EOF'
\"\"\"Lists readings that mean "no reading" (docs/RULES.md) in data/raw, by station.\"\"\"
import csv
import glob

SENTINELS = {-999.0, 6553.5}


def main():
    found = []
    for path in sorted(glob.glob("data/raw/*.csv")):
        with open(path, encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle, delimiter=";"):
                if float(row["temp"].replace(",", ".")) in SENTINELS:
                    found.append((row["station"], row["time"], row["temp"]))
    for item in sorted(found):
        print(*item)
    print("TOTAL", len(found))


main()
EOF
python3 tools/gaps.py""", fails=True)
    r.sh(DEBUG, "KeyError: I wrote that I would handle the mark and then opened the file as plain utf-8. Which file is it?", "head -c 3 data/raw/2023-03.csv | od -An -tx1; sed -i 's/encoding=\"utf-8\", newline/encoding=\"utf-8-sig\", newline/' tools/gaps.py && python3 tools/gaps.py")
    r.sh(DEBUG, "The total agrees with the grep (%d)? And is the order by station right for names in lower case?" % total, "python3 tools/gaps.py | tail -n 1; python3 tools/gaps.py | cut -d' ' -f1 | uniq -c")
    r.sh(DEBUG, "The total is right. A name in lower case would make a group of its own; do such names occur at all?", "cut -d';' -f2 data/raw/*.csv | grep '[a-z]' | grep -v station | sort | uniq -c")
    r.sh(IMPLEMENT, "They do, so I compare in upper case; the time stays as written in the file.", "sed -i 's/found.append((row\\[\"station\"\\],/found.append((row[\"station\"].upper(),/' tools/gaps.py && python3 tools/gaps.py | cut -d' ' -f1 | uniq -c")
    r.sh(DEBUG, "Second thought on the order: February of one station is written day first, so sorting the text of the time mixes months. The task asks for a list by station and says nothing on the order inside, but file order is kinder.",
         "sed -i 's/for item in sorted(found):/for item in sorted(found, key=lambda item: item[0]):/' tools/gaps.py && python3 tools/gaps.py")
    r.sh(VERIFY, "Sorting is stable, so inside a station the order of the files stays. Python 3.8:", "python3 -c \"import ast; ast.parse(open('tools/gaps.py').read(), feature_version=(3, 8)); print('3.8 ok')\"; grep -n '^import' tools/gaps.py")
    r.sh(VERIFY, "No other file changed?", "git status --short")
    r.sh(VERIFY, "A new file is not in `git diff` unless it is announced.", "git add -N tools/gaps.py && git diff -- tools/gaps.py > patch.txt && wc -l patch.txt")
    r.sh(VERIFY, "The patch:", "cat patch.txt")
    r.submit("One new file, %d sentinels found, as by grep. I hand it in." % total, "python3 tools/gaps.py | grep -q '^TOTAL %d$'" % total)
    return r


SCRIPTS = [fieldnotes_sensors_1, fieldnotes_sensors_4]
