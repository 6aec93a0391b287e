"""Checks out/clean.csv against docs/RULES.md; prints the first rows that break each rule."""
import csv
import json
import re
import sys
from collections import defaultdict

SHOW = 4


def main():
    stations = json.load(open("data/stations.json", encoding="utf-8"))
    broken = defaultdict(list)
    with open("out/clean.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.reader(handle))
    if rows[0] != ["time", "station", "temp_c", "humidity", "flag"]:
        broken["R1"].append((1, rows[0]))
    seen = {}
    for number, row in enumerate(rows[1:], 2):
        time, station, temp, humidity, flag = (row + [""] * 5)[:5]
        if not re.fullmatch(r"2023-\d\d-\d\dT\d\d:00:00Z", time):
            broken["R2"].append((number, row))
        if station not in stations:
            broken["R3"].append((number, row))
        if (time, station) in seen:
            broken["R4"].append((number, row))
        seen[time, station] = row
        if temp and not (re.fullmatch(r"-?\d+\.\d", temp) and -40 <= float(temp) <= 50):
            broken["R5"].append((number, row))
        if humidity and not (humidity.isdigit() and 0 <= int(humidity) <= 100):
            broken["R6"].append((number, row))
        if flag not in ("", "imputed", "calibrated", "suspect"):
            broken["R8"].append((number, row))
    keys = [(row[0], row[1]) for row in rows[1:] if len(row) > 1]
    if keys != sorted(keys):
        broken["R7"].append((0, ["not sorted"]))
    for station in stations:
        series = [(number, row) for number, row in enumerate(rows[1:], 2) if len(row) > 2 and row[1] == station and re.fullmatch(r"-?\d+\.\d", row[2])]
        for (_, a), (number, b), (_, c) in zip(series, series[1:], series[2:]):
            if all(abs(float(b[2]) - float(x[2])) > 12 for x in (a, c)):
                broken["R9"].append((number, b))
    for rule in sorted(broken):
        print("%s: %d rows" % (rule, len(broken[rule])))
        for number, row in broken[rule][:SHOW]:
            print("    line %d: %s" % (number, ",".join(row)))
    print("%d rows, %d rules broken" % (len(rows) - 1, len(broken)))
    return 1 if broken else 0


sys.exit(main())
