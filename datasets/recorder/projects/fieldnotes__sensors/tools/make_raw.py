"""Remakes data/raw: invented readings with the faults that real loggers have."""
import os

STATIONS = ("FJ-02", "KV-07", "LO-11", "RV-19")
BASE = {"FJ-02": -6.0, "KV-07": 3.0, "LO-11": -1.5, "RV-19": 1.0}
DAYS = {1: 31, 2: 28, 3: 31}
state = 2291


def rnd(n):
    """A small linear congruential generator: the same on every machine."""
    global state
    state = (state * 1103515245 + 12345) % 2147483648
    return (state >> 16) % n


def reading(station, month, day, hour):
    value = BASE[station] + (month - 1) * 2.5 + {3: -2.0, 9: 0.5, 15: 3.0, 21: -0.5}[hour] + (rnd(41) - 20) / 10
    if station == "KV-07" and (month, day) < (2, 14):
        value += 1.8
    return value


def main():
    os.makedirs("data/raw", exist_ok=True)
    for month in (1, 2, 3):
        rows = []
        for day in range(1, DAYS[month] + 1, 3):
            for hour in (3, 9, 15, 21):
                for station in STATIONS:
                    temp, hum = reading(station, month, day, hour), 55 + rnd(40)
                    shown = hour + 2 if station == "FJ-02" else hour
                    time = "2023-%02d-%02d %02d:00" % (month, day, shown)
                    if station == "RV-19" and month == 2:
                        time = "%02d.%02d.2023 %02d:00" % (day, month, shown)
                    text = "%.1f" % (temp * 9 / 5 + 32 if station == "LO-11" else temp)
                    fault = rnd(60)
                    if fault == 0:
                        text = "-999"
                    elif fault == 1:
                        text = "6553.5"
                    elif fault == 2:
                        text = "%.1f" % (float(text) + 30)
                    elif fault == 3:
                        hum = 100 + rnd(9) + 1
                    if month == 3 and station == "KV-07":
                        text = text.replace(".", ",")
                    name = station.lower() if fault == 4 else station
                    rows.append("%s;%s;%s;%s" % (time, name, text, hum))
                    if fault in (5, 6):
                        rows.append(rows[-1])
        head = "time;station;temp;humidity"
        end = "\r\n" if month == 2 else "\n"
        text = ("\ufeff" if month == 3 else "") + end.join([head] + rows) + end
        with open("data/raw/2023-%02d.csv" % month, "w", encoding="utf-8", newline="") as handle:
            handle.write(text)


main()
