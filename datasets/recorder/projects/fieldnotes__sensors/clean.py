"""Cleans data/raw into out/clean.csv. First version: only joins the files."""
import csv
import glob
import json
import os

COLUMNS = ["time", "station", "temp_c", "humidity", "flag"]


def read_raw(path):
    with open(path, encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle, delimiter=";"):
            yield row


def clean(row, stations):
    """One raw row to one clean row, or None to drop it."""
    return {"time": row["time"], "station": row["station"], "temp_c": row["temp"], "humidity": row["humidity"], "flag": ""}


def main():
    with open("data/stations.json", encoding="utf-8") as handle:
        stations = json.load(handle)
    rows, counts = [], {"read": 0, "dropped": 0}
    for path in sorted(glob.glob("data/raw/*.csv")):
        for raw in read_raw(path):
            counts["read"] += 1
            row = clean(raw, stations)
            if row is None:
                counts["dropped"] += 1
            else:
                rows.append(row)
    counts["written"] = len(rows)
    os.makedirs("out", exist_ok=True)
    with open("out/clean.csv", "w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with open("out/report.json", "w", encoding="utf-8") as handle:
        json.dump(counts, handle, indent=2, sort_keys=True)
        handle.write("\n")
    print(counts)


if __name__ == "__main__":
    main()
