"""Invented names and values. `rarity` low takes common words and round numbers, high takes rare ones.

No value is part of another value of the same run, so that counting a value in a log means something.
"""
import re

PEOPLE = ("Mara Ines Tobin Yusuf Lene Anselm Priya Oskar Wanda Kofi Elif Jorun Pavel Saskia Dmitri Noor Aiko Bram "
          "Celeste Farid Greta Hanno Ilse Jamal Katya Ludo Mirela Nils Odile Pilar Quentin Rosa Stellan Tamsin Ulla "
          "Viktor Wren Xenia Ysolde Zubin Ásdís Søren Zoë Łucja Émile").split()
ONSETS = "br v qu dr k z fl gr m th sk l p n t str w h y j cl".split()
NUCLEI = "a e i o u ai or en ul ar ix om ae".split()
CODAS = "n x l rk m st d v sh t nd z".split()
COMMON = ("parser cache report loader worker server client queue index router filter import export sync backup "
          "search login billing mail upload").split()
HALF = ("row-packer fee-splitter tide-reader slot-keeper bulk-mailer page-stitcher rate-clerk link-weaver lot-counter "
        "shift-planner sum-checker key-rotator stock-walker note-binder draft-mover label-press queue-warden").split()
VENDORS = ("Oakmere Fennwick Tallis Brightwater Corvane Dunmore Esterly Gallow&Pike Hexham Ivory&Sons Juniper Kestrel "
           "Lowland Marrow Nettlefold Osprey").split()
PLACES = ("Rørvik Halden Castrel Umberley Port-Maren Tessaly Brackwater Vinterby Sandgate Ormsund Lydmoor Kalvaag "
          "Quillon Estoril-West Marchfield Dunholt").split()
MONTHS = "January February March April May June July August September October November December".split()


def word(chance, syllables=2):
    out = ""
    for i in range(syllables):
        out += chance.choice(ONSETS) + chance.choice(NUCLEI)
    return out + chance.choice(CODAS)


def label(chance, rarity, taken):
    """The name of a part, a service, a device."""
    for _ in range(200):
        name = {"low": lambda: chance.choice(COMMON), "mid": lambda: chance.choice(HALF),
                "high": lambda: word(chance)}[rarity]()
        if not clashes(name, taken):
            taken.add(name)
            return name
    name = word(chance, 3)
    taken.add(name)
    return name


def clashes(value, taken):
    value = value.lower()
    return any(value in t.lower() or t.lower() in value for t in taken)


def digits(chance, n):
    return str(chance.int(1, 9)) + "".join(str(chance.below(10)) for _ in range(n - 1))


def hexa(chance, n):
    text = "".join("0123456789abcdef"[chance.below(16)] for _ in range(n))
    return text if re.search("[a-f]", text) and re.search("[0-9]", text) else hexa(chance, n)


def letters(chance, n):
    return "".join("ABCDEFGHKLMNPQRSTVWXYZ"[chance.below(22)] for _ in range(n))


def money(chance, rarity):
    if rarity == "low":
        return "$%d" % (chance.int(3, 19) * 50)
    if rarity == "mid":
        return "$%d" % (chance.int(21, 199) * 5)
    return "$%d,%03d" % (chance.int(1, 9), chance.int(101, 989))


def path(chance, rarity, folder, ends):
    stem = {"low": lambda: chance.choice(COMMON) + chance.choice(["", "_utils", "_main", "_base", "_model", "_view"]),
            "mid": lambda: chance.choice(HALF).replace("-", "_"),
            "high": lambda: word(chance) + "_" + chance.choice(["spool", "gate", "ledger", "knot", "weir", "sieve"])}[rarity]()
    sub = chance.choice(["", chance.choice(COMMON) + "/", word(chance, 1) + "/"])
    return folder + "/" + sub + stem + chance.choice(ends)


MAKERS = {
    "port": lambda c, r: str(c.choice([8080, 8081, 3000, 5000, 5432, 6379, 9090, 8443, 8888, 4000, 9200, 7000])
                             if r == "low" else c.int(7001, 9989) if r == "mid" else c.int(20011, 60999)),
    "ticket": lambda c, r: {"low": "T-", "mid": c.choice(["OPS-", "DEV-", "REQ-"]), "high": letters(c, 3) + "-"}[r]
    + digits(c, {"low": 3, "mid": 4, "high": 5}[r]),
    "hash": lambda c, r: hexa(c, {"low": 7, "mid": 8, "high": 12}[r]),
    "version": lambda c, r: "%d.%d.%d" % (c.int(1, 9), c.int(0, 30), c.int(0, 19))
    + ("-rc%d" % c.int(1, 9) if r == "high" else ""),
    "code": lambda c, r: "E" + digits(c, 4) if r != "high" else "%s-%s%s" % (letters(c, 2), digits(c, 3), letters(c, 1)),
    "src": lambda c, r: path(c, r, "src", [".py", ".rs", ".ts"]),
    "tests": lambda c, r: path(c, r, "tests", ["_test.py", "_spec.ts", "_cases.py"]),
    "datafile": lambda c, r: path(c, r, "data", [".csv", ".parquet", ".tsv"]),
    "notefile": lambda c, r: path(c, r, "notes", [".md"]),
    "host": lambda c, r: "%s.%s.internal" % ((c.choice(COMMON) if r == "low" else word(c, 1)) + digits(c, 2), word(c, 1)),
    "flag": lambda c, r: "--" + c.choice(["max", "min", "no", "with", "use", "skip"]) + "-"
    + (c.choice(COMMON) if r == "low" else word(c)) + c.choice(["", "-size", "-rows", "-limit"]),
    "column": lambda c, r: (c.choice(COMMON) if r == "low" else word(c)) + "_" + c.choice(["id", "key", "sum", "digest", "at", "ref"])
    + ("_v%d" % c.int(2, 9) if r == "high" else ""),
    "docid": lambda c, r: {"low": "doc-", "mid": "ref-", "high": letters(c, 2).lower() + "."}[r] + digits(c, 5),
    "shelf": lambda c, r: "%s %s/%s" % (letters(c, 2), digits(c, 3), digits(c, 2)) if r != "high"
    else "%s.%s-%s" % (letters(c, 3), digits(c, 4), letters(c, 1).lower()),
    "count": lambda c, r: digits(c, 1) + ",%03d" % c.int(100, 989) if r != "low" else str(c.int(11, 98) * 10),
    "effect": lambda c, r: "0.%02d%s" % (c.int(11, 89), "" if r == "low" else digits(c, 1)),
    "person": lambda c, r: "P%03d%s" % (c.int(100, 998), "" if r != "high" else letters(c, 1)),
    "station": lambda c, r: letters(c, 2) + digits(c, {"low": 2, "mid": 3, "high": 4}[r]),
    "order": lambda c, r: "%s-%s" % (digits(c, 2), digits(c, {"low": 4, "mid": 5, "high": 6}[r])),
    "parcel": lambda c, r: letters(c, 2) + digits(c, {"low": 7, "mid": 8, "high": 9}[r]) + letters(c, 2),
    "serial": lambda c, r: letters(c, 2) + digits(c, 4) + ("" if r == "low" else "-" + letters(c, 1) + digits(c, 2)),
    "money": money,
    "cents": lambda c, r: "$%d.%02d" % (c.int(11, 89), c.int(11, 99)) if r != "low" else "$%d.50" % c.int(11, 99),
    "date": lambda c, r: "%d %s" % (c.int(2, 28), c.choice(MONTHS)) if r != "high" else "2031-%02d-%02d" % (c.int(1, 12), c.int(1, 28)),
    "room": lambda c, r: "%s-%d" % (letters(c, 1), c.int(101, 989)),
    "flight": lambda c, r: letters(c, 2) + digits(c, {"low": 3, "mid": 4, "high": 4}[r]),
    "colour": lambda c, r: "#" + hexa(c, 6),
    "frame": lambda c, r: "frame-" + digits(c, {"low": 3, "mid": 4, "high": 5}[r]),
    "part": lambda c, r: letters(c, 2) + digits(c, 3) + "-" + letters(c, 1) if r != "high" else letters(c, 3) + digits(c, 2) + "." + hexa(c, 3),
    "mm": lambda c, r: "%d mm" % (c.int(2, 30) * 10) if r == "low" else "%d.%d mm" % (c.int(11, 390), c.int(1, 9)),
    "px": lambda c, r: "%d px" % (c.int(2, 120) * (8 if r == "low" else 1) + (0 if r == "low" else 301)),
    "ms": lambda c, r: "%d ms" % (c.int(2, 18) * 50 if r == "low" else c.int(41, 997)),
    "gb": lambda c, r: "%d GB" % c.int(2, 19 if r == "low" else 39) if r != "high" else "%d.%d GB" % (c.int(1, 38), c.int(1, 9)),
    "minutes": lambda c, r: "%d minutes" % (c.int(2, 12) * 5 if r == "low" else c.int(7, 89)),
    "ratio": lambda c, r: "%d.%d:1" % (c.int(3, 11), c.int(1, 9)),
    "words": lambda c, r: "%d words" % (c.int(3, 40) * 50 if r == "low" else c.int(121, 1989)),
    "percent": lambda c, r: "%d %%" % c.int(3, 97) if r == "low" else "%d.%d %%" % (c.int(3, 97), c.int(1, 9)),
    "table": lambda c, r: "table " + digits(c, 2),
}


def value(chance, kind, rarity, taken):
    for attempt in range(400):
        v = MAKERS[kind](chance, rarity if attempt < 100 else "high")
        if not clashes(v, taken):
            taken.add(v)
            return v
    raise ValueError("no free value of kind " + kind)
