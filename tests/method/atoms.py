"""Finds the atoms of texts by docs/method.md: `atoms.py DATA` holds them against features.parquet."""
import pathlib, re, sys
import pyarrow.parquet as pq

LISTS = pathlib.Path(__file__).parents[2] / "src/data/lexer"
KINDS = "path identifier number version hash url quoted error flag id".split()
PATH, IDENTIFIER, NUMBER, VERSION, HASH, URL, QUOTED, ERROR, FLAG, ID = range(10)
BOUND, BODY, DERIVED = 1, 2, 4


def listed(name, part=0):
    lines = (LISTS / f"{name}.txt").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    return set(text.split("\n*")[part].lower().split())


STOP, NOT_ATOMS, NOUNS = listed("stop_words"), listed("not_atoms"), listed("numbered_nouns")
FOLDERS, FILES, ERRNOS = listed("folders"), listed("files"), listed("errnos")
EXTENSIONS, WEAK = listed("extensions"), listed("extensions", 1)
UNITS = dict(line.split(" ", 1) for line in (LISTS / "units.txt").read_text().splitlines() if line[0] != "#")
MODULES = set("html htm json xml sql css csv sh tar properties config conf lock go mod feature snap md text lua dart pl "
              "pm sqlite sqlite3".split())
WORD = "A-Za-z0-9_"
is_word = re.compile(f"[{WORD}]").fullmatch
full = lambda pattern, text: re.fullmatch(pattern, text)
runs = lambda text: len(re.findall("[0-9]+", text))
size = lambda text: len(text.encode())
HUMP = re.compile("[a-z0-9][A-Z]|^[A-Z]{2,}[a-z]{2}").search
TAIL = r"(?:a|b|rc|alpha|beta|dev|post|pre)[0-9-]*"


def is_error(word):
    stem = re.sub("(Error|Exception|Warning)$", "", word, count=1)
    return stem != word and full("[A-Z].*", stem) and stem != "No" \
        and not re.match("(Test|New|Is|Assert|Run)(?![^A-Z])", stem)


def version(chunk):
    text = re.sub("^[vV](?=[0-9])", "", chunk)
    first, *rest = text.split(".")
    if not full("[0-9]{1,8}", first) or not rest or not rest[0]:
        return None
    if len(rest) == 1:
        digits = re.match("[0-9]*", rest[0])[0]
        tail = rest[0][len(digits):].lstrip("-")
        return text if digits and (text != chunk and not tail or full(TAIL, tail)) else None
    third = rest[1]
    good = full("[0-9]{1,8}", rest[0]) and (full("[0-9].*|x", third) or full(TAIL, third))
    good = good and all(p and size(p) <= 24 and "_" not in p for p in rest[1:])
    return text if good and not any(full("[A-Za-z]{3,}", p) and not full(TAIL, p) for p in rest[1:]) else None


class Lexer:
    def __init__(self, text):
        self.text, self.atoms, self.cues, self.word, self.key, self.quote = text, [], [], 0, None, None
        self.closed = self.resume = self.line = 0
        i, self.closed = 0, -1
        while i < len(text):
            if self.quote and i >= self.quote[1]:
                self.close_quote()
            i = max(self.step(i), self.resume)
        if self.quote:
            self.close_quote()

    def at(self, i):
        return self.text[i] if 0 <= i < len(self.text) else ""

    def match(self, pattern, i):
        return re.compile(pattern).match(self.text, i)

    def step(self, i):
        c = self.text[i]
        if is_word(c) or c > "\x7f" and c.isalnum() or self.match(rf"\.(?:/|\.[/.]|[{WORD}])|/[{WORD}.]|~/", i):
            return self.chunk(i)
        if c == "\n":
            self.line, self.key = i + 1, None
        if c == "-":
            return self.dashes(i)
        if c in "\"'`":
            return self.open_quote(i)
        if c == "\\":
            return self.escape(i)
        if c == "\x1b":
            return self.ansi(i + 1)
        colour = self.match(r"\[[0-9;]{1,12}m", i)
        return colour.end() if colour else i + 1

    def emit(self, kind, start, end, norm=None):
        norm = self.text[start:end] if norm is None else norm
        self.word += 1
        self.resume = end
        if 0 < size(norm) <= 200:
            self.atoms.append((kind, start, end, norm, self.word))

    def skip(self):
        self.word += 1

    # ---- chunks ----
    def chunk(self, start):
        j = self.match(r"~?[\w\-./@]+", start).end()
        whole = self.text[start:j]
        if full("[A-Za-z0-9-]{2,}", whole) and self.text.startswith("://", j):
            return self.url(start, j + 3)
        if full("[A-Za-z]+", whole):
            return self.letters(start, j)
        key, self.key = self.key, None
        if full("[0-9]+", whole):
            self.number(start, j, key)
            return j
        if self.at(start - 1) == "<" and self.at(j) == ">" and full("[a-z0-9][a-z0-9-]*-[0-9]+", whole):
            self.emit(ID, start, j)
            return j
        if size(whole) > 400:
            self.skip()
            return j
        end, after = start + len(whole.rstrip(".-@")), j
        if "-" in self.text[start:end]:
            here = self.match("[0-9]+(-(?![0-9]))?", start)
            if here and start == self.line:
                start = here.end() if here[1] and here.end() < end else start
            else:
                for m in re.finditer("-(?=([0-9]+)(?=-))", self.text[start:end + (self.at(end) == "-")]):
                    if self.extension(self.text[start:start + m.start()]):
                        after = min(start + m.end() + len(m[1]) + 1, len(self.text))
                        end = start + m.start()
                        break
        if size(self.text[start:end]) > 200:
            self.skip()
        else:
            self.classify(start, end, key)
        return after

    def classify(self, start, end, key=None):
        chunk = self.text[start:end]
        if "/" in chunk:
            self.slashed(start, end)
        elif not full(rf"[{WORD}.-]*", chunk):
            self.rare(start, end)
        elif "." in chunk:
            self.dotted(start, end, key)
        elif "-" in chunk:
            self.dashed(start, end)
        elif full("[0-9]+", chunk):
            self.number(start, end, key)
        elif full("[A-Za-z]+", chunk):
            self.letters(start, end)
        elif "_" in chunk:
            self.snake(start, end)
        elif chunk:
            self.mixed(start, end)
        else:
            self.skip()

    def parts(self, start, end, separator):
        for m in re.finditer(f"[^{separator}]+", self.text[start:end]):
            self.classify(start + m.start(), start + m.end())

    def is_call(self, end):
        return self.match(r"\((?!e?s\))", end)

    def letters(self, start, end):
        word, is_mixed = self.text[start:end], not (self.text[start:end].isupper() or self.text[start:end].islower())
        low = word.lower()
        if is_mixed and is_error(word):
            self.emit(ERROR, start, end)
        elif is_mixed and len(word) >= 5 and HUMP(word) and low not in NOT_ATOMS:
            self.emit(IDENTIFIER, start, end)
        elif word.isupper() and len(word) >= 3 and low in ERRNOS:
            self.emit(ERROR, start, end)
        elif len(word) >= 3 and self.is_call(end) and self.at(start - 1) != "-" and low not in NOT_ATOMS | STOP:
            self.emit(IDENTIFIER, start, end)
        elif is_mixed and low in FILES:
            self.emit(PATH, start, end)
        else:
            self.word += 1
            if len(word) >= 3 and low not in STOP:
                self.cues.append((start, self.word, low))
            self.key = (start, end, False)
            suffix = self.match(f"'[A-Za-z]{{1,3}}(?![{WORD}])", end)
            return suffix.end() if suffix else end
        self.key = (start, end, False)
        return end

    def snake(self, start, end):
        word = self.text[start:end]
        if full("_[^_]+_", word):
            return self.classify(start + 1, end - 1) if not full("[0-9]+", word[1:-1]) else self.skip()
        n_letters = len(re.findall("[A-Za-z]", word))
        if len(word) >= 3 and n_letters >= (3 if word[0].isdigit() else 2) and word.lower() not in NOT_ATOMS:
            self.emit(IDENTIFIER, start, end)
        else:
            self.skip()
        self.key = (start, end, False)

    def mixed(self, start, end):
        word = self.text[start:end]
        lower, upper, n = re.search("[a-z]", word), re.search("[A-Z]", word), len(word)
        hexes = re.findall("[A-Za-z]", word)
        near = self.at(start - 1) == "+" or self.at(end) in ("+", "=") and self.at(end)
        if full("0[xX].+", word) or n in (3, 6) and self.at(start - 1) == "#" and full("[0-9A-Fa-f]+", word) \
                or full("[0-9]*Z|L[0-9]*|[0-9][0-9]T[0-9][0-9]", word):
            self.skip()
        elif (32 if upper else 7) <= n <= 64 and not (lower and upper) and full("[0-9A-Fa-f]+", word) \
                and hexes not in (["e"], ["E"]):
            self.emit(HASH, start, end, word.lower())
        elif word[0].isdigit() and self.unit_number(start, end):
            pass
        elif full(r"[EWF][0-9]{3,4}|[CR](?:[0-9]{3}|0[0-9]{3})|(?:TS|CS|SC|LNK)[0-9]{4}", word) or is_error(word):
            self.emit(ERROR, start, end)
        elif word.lower() in NOT_ATOMS:
            self.skip()
        elif not lower and (n >= 6 or n == 5 and len(re.findall("[0-9]", word)) >= 2) \
                or lower and upper and n >= 10 and runs(word) >= 3 and not near \
                or not upper and n >= 16 and runs(word) >= 3:
            self.emit(ID, start, end)
        elif lower and upper and n >= 5 and HUMP(word) and not word[0].isdigit() \
                or n >= 3 and word[0].isalpha() and self.is_call(end):
            self.emit(IDENTIFIER, start, end)
        else:
            self.skip()
        if word[0].isalpha():
            self.key = (start, end, False)

    # ---- numbers ----
    def unit_number(self, start, end):
        value = re.match("[0-9.]*", self.text[start:end])[0]
        unit = self.text[start + len(value):end]
        if unit.lower() not in UNITS or value.count(".") > 1 or unit == "d" and full("[0-4]", value):
            return False
        self.measure(value, UNITS[unit.lower()], start, end)
        return True

    def measure(self, value, unit, start, end):
        if unit == "s" and self.at(start - 1) == "(" and self.at(end) == ")":
            self.skip()
            self.resume = end
        else:
            self.emit(NUMBER, start, end, f"${value}" if unit == "$" else value + unit)

    def number(self, start, end, key):
        value = self.text[start:end]
        n, whole = len(value.replace(".", "")), "." not in value
        before, is_round = self.at(start - 1), len(value.rstrip("0")) <= 2
        if before == "$":
            stop = end
            while self.match(r",[0-9]{3}(?![0-9])", stop):
                stop += 4
            if self.match(r"\.[0-9]{2}(?![0-9])", stop):
                stop += 3
            money = self.text[start:stop].replace(",", "")
            if len(money) > 1:
                return self.emit(NUMBER, start - 1, stop, "$" + money)
        if before == "#" and whole and not self.match(rf"[{WORD}&#]", start - 2 if start > 1 else len(self.text)) \
                and value[0] != "0" and n != 6:
            return self.emit(NUMBER, start - 1, end, "#" + value) if n < 6 else self.emit(ID, start - 1, end, value)
        if self.match(rf"%(?![{WORD}\]])", end):
            return self.emit(NUMBER, start, end + 1, value + "%")
        spaced = self.match(rf" ([A-Za-z]{{2,13}})(?![{WORD}(=])", end)
        if spaced and spaced[1].lower() in UNITS:
            return self.measure(value, UNITS[spaced[1].lower()], start, spaced.end())
        if key and self.text[key[0]:start] == "localhost:":
            if self.cues and self.cues[-1][0] == key[0]:
                self.cues.pop()
            return self.emit(URL, key[0], end)
        if whole and not is_round and 9 <= n <= 40:
            return self.emit(ID, start, end)
        sign = key and self.bears(key, start, end)
        if sign:
            name = self.text[key[0]:key[1]]
            if name.lower() == "version" and "." in value:
                return self.emit(VERSION, start, end)
            return self.emit(NUMBER, start, end, name.lower() + sign + value)
        if whole and not is_round and 7 <= n <= 8:
            return self.emit(ID, start, end)
        self.skip()

    def bears(self, key, start, end):
        gap, name, after = self.text[key[1]:start], self.text[key[0]:key[1]], self.at(end)
        sign = "=-" if len(gap) > 1 and gap[-1] == "-" else "="
        gap = gap[:-1] if sign == "=-" else gap
        if size(gap) > 6 or not 3 <= size(name) <= 40 or self.match(":[0-9]", end) or gap == ":" or after == ">" \
                or gap[-1:] in ('"', "'") and gap and after not in ('"', "'") or not full("[ \"'`*=:]*", gap):
            return None
        signs = len(re.findall("[=:]", gap))
        if signs == 0:
            return gap == " " and sign == "=" and (key[2] or name.lower() in NOUNS) and sign
        return (name.lower() not in STOP if signs == 1 else gap in (":=", " := ")) and sign

    # ---- dots ----
    def dotted(self, start, end, key):
        start += len(self.text[start:end]) - len(self.text[start:end].lstrip("."))
        chunk, dot = self.text[start:end], self.at(start - 1) == "."
        if dot and self.text[start - 1:end].lower() in FILES:
            return self.emit(PATH, start - 1, end)
        if "." not in chunk:
            return self.skip() if dot and chunk[:1].isdigit() else self.classify(start, end)
        if full("[0-9.]+", chunk) and ".." not in chunk:
            return self.numeric(start, end, key)
        if version(chunk):
            return self.emit(VERSION, start, end, version(chunk))
        if chunk[0].isdigit() and self.unit_number(start, end):
            return
        if self.is_file(start, end):
            return self.emit(PATH, start, end)
        name, _, domain = chunk.rpartition(".")
        if domain in ("com", "org", "net", "edu", "gov") and full("[A-Za-z0-9.-]{2,}", name) and self.at(end) != "(":
            return self.emit(URL, start, end, chunk.lower())
        if "-" not in chunk:
            return self.qualified(start, end)
        for m in re.finditer("-", chunk):
            if m.start() and version(chunk[m.end():]):
                self.parts(start, start + m.start(), "-")
                return self.emit(VERSION, start + m.end(), end, version(chunk[m.end():]))
        self.parts(start, end, "-")

    def numeric(self, start, end, key):
        parts = self.text[start:end].split(".")
        if len(parts) == 2 and start >= 3 and re.match(rf"[{WORD}][=><~!]=", self.text[start - 3:start]):
            self.emit(VERSION, start, end)
        elif len(parts) == 2:
            self.number(start, end, key)
        elif len(parts) == 4 and parts[0] != "0" and all(len(p) <= 3 and p and int(p) < 256 for p in parts):
            port = self.match(":[0-9]{2,5}(?![0-9])", end)
            self.emit(URL, start, port.end() if port else end)
        elif all(len(p) <= 8 for p in parts):
            self.emit(VERSION, start, end)
        else:
            self.skip()

    def extension(self, name):
        stem, _, extension = name.rpartition(".")
        return stem and extension.lower() in EXTENSIONS | WEAK and extension

    def is_file(self, start, end):
        stem, _, extension = self.text[start:end].rpartition(".")
        low = extension.lower()
        return stem and low in EXTENSIONS and re.search("[A-Za-z0-9]", stem) and not stem.startswith("self.") \
            and not (low in MODULES and full(r"[a-z._]*\.[a-z._]*", stem)) and self.at(end) != "("

    def qualified(self, start, end):
        chunk = self.text[start:end]
        last = end - len(chunk.split(".")[-1])
        for receiver in ("self.", "cls.", "this."):
            if chunk.startswith(receiver):
                self.classify(start + 5 - (receiver == "cls."), end)
                self.key = (last, end, False)
                return
        parts = chunk.split(".")
        if not all(full("[A-Za-z_].*", p) for p in parts):
            return self.parts(start, end, ".")
        if is_error(parts[-1]):
            self.emit(ERROR, last, end)
        elif len(parts) == 2:
            self.pair(start, last, end)
        elif len(chunk) >= 5 and any(len(p) > 2 for p in parts):
            self.emit(IDENTIFIER, start, end)
        else:
            self.skip()
        self.key = (last, end, False)

    def pair(self, start, second, end):
        a, b = self.text[start:second - 1], self.text[second:end]
        if b.lower() in STOP and (b[0].isupper() or full("[a-z]*", a)):
            self.parts(start, end, ".")
        elif "_" in b or full("(?=.*[a-z])(?=.*[A-Z])[A-Za-z]{5,}", b) and HUMP(b):
            self.classify(second, end)
        elif self.is_call(end):
            self.emit(IDENTIFIER, second, end) if len(b) >= 3 and b.lower() not in NOT_ATOMS | STOP else self.skip()
        elif len(a) >= 2 and len(b) >= 2 and len(a + b) > 4:
            self.emit(IDENTIFIER, start, end)
        else:
            self.skip()

    # ---- dashes, slashes, the rest ----
    def dashed(self, start, end):
        chunk = self.text[start:end].lstrip("-")
        start = end - len(chunk)
        parts = chunk.split("-")
        sizes, digits = [len(p) for p in parts], [bool(full("[0-9]+", p)) for p in parts]
        if len(parts) < 2:
            self.parts(start, end, "-")
        elif sizes == [8, 4, 4, 4, 12] and full("[0-9A-Fa-f-]+", chunk):
            self.emit(ID, start, end, chunk.lower())
        elif all(digits):
            if sizes == [4, 2, 2]:
                self.date(start, end)
            elif sum(sizes) >= 7 and 3 <= len(parts) <= 5 and min(sizes) >= 2 and sizes[0] <= 4:
                self.emit(ID, start, end)
            else:
                self.skip()
        elif len(parts) == 3 and sizes[:2] == [4, 2] and digits[0] and digits[1]:
            self.skip()
        elif digits[-1] and (full("[A-Z]{2,10}-[0-9]{2,8}", chunk) or len(parts) == 2 and sizes[-1] in range(3, 11)
                             and full("[A-Za-z][A-Za-z0-9]+", parts[0]) or len(parts) > 2 and sizes[-1] in range(4, 11)
                             and all(full("[A-Za-z][A-Za-z0-9]+", p) for p in parts[:-1])):
            self.emit(ID, start, end)
        elif re.search("[a-z]", chunk) and re.search("[A-Z]", chunk) and re.search("[0-9]", chunk) \
                and len(chunk) >= 16 and runs(chunk) >= 3 and max(sizes) >= 8:
            self.emit(ID, start, end)
        else:
            self.parts(start, end, "-")

    def date(self, start, end):
        self.skip() if self.match(" [0-9].?:", end) and len(self.text) >= end + 4 else self.emit(NUMBER, start, end)

    def slashed(self, start, end):
        chunk, before, start0 = self.text[start:end], self.at(start - 1), start
        continues = before in tuple(")]}>*%<$/{") or before in ("'", '"') and is_word(self.at(start - 2))
        if chunk.startswith("//") or chunk.startswith("/") and continues:
            chunk = chunk.lstrip("/")
        explicit = False
        while m := re.match(r"\./|\.\.\./", chunk):
            explicit, chunk = m[0] == "./", chunk[m.end():]
        line = self.text[self.line:start]
        if re.match("[ab]/", chunk) and (line.startswith(("diff --git ", "Binary files ")) or line in ("--- ", "+++ ")):
            chunk = chunk[2:]
        start, norm = end - len(chunk), chunk.rstrip("/")
        folder = norm != chunk
        if "/" not in norm and not folder and not explicit:
            return self.classify(start, end) if norm else self.skip()
        host = chunk.lstrip(".").split("/")[0]
        if "/" in chunk.lstrip(".") and full(r".+\.(com|org|net|edu|gov)", host):
            return self.emit(URL, start0, end, chunk.lstrip(".").rstrip("/"))
        if full("[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}", norm):
            return self.date(start, start + len(norm))
        single = folder and "/" not in norm
        if single and continues and self.at(start0) == "/" or not self.is_path(norm, explicit, folder):
            return self.parts(start, end, "/")
        is_case = norm.startswith("Test") and not self.extension(norm)
        self.emit(IDENTIFIER if is_case else PATH, start0, end, norm + "/" if single else norm)

    def is_path(self, norm, explicit, folder):
        absolute = norm.startswith(("/", "~/"))
        parts = re.sub("^(~/)*", "", norm).lstrip("/").split("/")
        letters = [sum(c.isalpha() for c in p) for p in parts]
        if any(not p or is_blob(p) for p in parts) or max(letters) < 2:
            return False
        if full("[0-9]*s", parts[0]) and norm[0] != "/":
            return False
        if self.extension(norm) or explicit or norm.startswith(("../", "~/")):
            return True
        if absolute:
            return letters[0] >= 2 and (len(parts) > 1 or size(parts[0]) >= 3)
        if len(parts) == 2 and parts[0] in ("application", "text", "image", "audio", "video", "multipart", "font"):
            return False
        if parts[0].lower() in FOLDERS and len(parts) > 1 \
                or any(p[0] == "." and size(p) > 2 or "_" in p and n >= 3 for p, n in zip(parts, letters)):
            return True
        named = all(size(p) >= 2 and n and p.lower() not in STOP for p, n in zip(parts, letters))
        return named and (len(parts) >= 3 and any(p[0].islower() for p in parts)
                          or folder and size(parts[0]) >= 3 and not full("[A-Z].*", parts[0]))

    def rare(self, start, end):
        chunk = self.text[start:end]
        name, at, domain = chunk.partition("@")
        if at:
            host, _, tld = domain.rpartition(".")
            if name and host and full("[A-Za-z]{2,}", tld):
                return self.emit(ID, start, end, chunk.lower())
            return self.parts(start, end, "@")
        if "." in chunk and self.is_file(start, end):
            return self.emit(PATH, start, end)
        if "_" in chunk and full(r"\w+", chunk):
            return self.emit(IDENTIFIER, start, end)
        at = start
        for word in re.split(r"[\W_]", chunk):
            self.word += 1
            if len(word) >= 3 and word.isalpha() and word.lower() not in STOP:
                self.cues.append((at, self.word, word.lower()))
            at += len(word) + 1

    def url(self, start, begin):
        end, depth = begin, 0
        while c := self.at(end):
            if c <= " " or c in "\"'<>`\\{}|^\x7f" or c > "\x7f" and not c.isalnum() or c in ")]" and not depth:
                break
            depth += (c in "([") - (c in ")]")
            end += 1
        norm = self.text[start:end].rstrip(".,;:!?*_~([")
        self.key = None
        if re.search("[A-Za-z0-9]", self.text[begin:start + max(len(norm), begin - start)]):
            self.emit(URL, start, start + len(norm), norm.rstrip("/"))
        else:
            self.skip()
        return end

    def dashes(self, start):
        name = self.match("-+", start).end()
        before = self.at(start - 1)
        flag = self.match(f"--([A-Za-z][{WORD}-]*)", start)
        if name - start == 2 and flag and not (before and is_word(before)) and before not in tuple(")><!*."):
            stop = name + len(flag[1].rstrip("-_"))
            if stop - name >= 2 and not self.text[:start].endswith("diff "):
                self.emit(FLAG, start, stop)
                self.key = (name, stop, True)
            return flag.end() if flag else name
        return name

    # ---- quotes and escapes ----
    def open_quote(self, start):
        mark = self.at(start)
        run = self.match(f"{mark}+", start).end()
        if run - start > 1 or self.quote or start == self.closed or not self.may_open(start):
            return run
        end, closes = start + 1, None
        while end < len(self.text) and size(self.text[start + 1:end]) <= 240 and self.text[end] != "\n":
            c = self.text[end]
            if c == mark and not is_word(self.at(end + 1) or " "):
                closes = end
                break
            end += 2 if c == "\\" else 1
        if closes is not None:
            self.closed = closes
            if self.is_quotable(start + 1, closes, mark):
                self.quote = (start + 1, closes, len(self.atoms), len(self.cues), self.word)
        return start + 1

    def may_open(self, start):
        before = re.search(f"[{WORD}]*\\Z", self.text[max(0, start - 3):start])[0]
        if not before:
            return self.at(start - 1) not in tuple(")]\\")
        return len(before) <= 2 and before[-1] in "frbuFRBU" and self.at(start) != "`"

    def is_quotable(self, start, end, mark):
        content, after = self.text[start:end], self.text[end + 1:end + 3]
        is_key = mark != "`" and len(after) == 2 and after[0] == ":" and after[1] not in "\r\n"
        return 3 <= len(content) <= 60 and sum(c.isalpha() for c in content) * 2 >= len(content) \
            and content.strip() == content and not (len(content) <= 6 and "\\" in content) and not is_key \
            and not self.text[:start - 1].rstrip(" -").endswith("<<") and content.lower() not in STOP

    def close_quote(self):
        (start, end, n_atoms, n_cues, word), self.quote = self.quote, None
        if len(self.atoms) == n_atoms:
            del self.cues[n_cues:]
            self.word = word
            norm = re.sub(r"^(\\n|\\t)+|(\\n|\\t)+$", "", self.text[start:end])
            inner = full("(?s)([\"'`])(.*)\\1", norm)
            self.emit(QUOTED, start, end, (inner[2] if inner else norm).strip())

    def escape(self, start):
        at = self.match(r"\\+", start).end()
        c = self.at(at)
        if c == "n":
            self.line, self.key = at + 1, None
            return at + 1
        if c and c in "trbdwsBDWS\"'`" or c and c in "fav" and not self.match("[A-Za-z]", at + 1):
            return at + 1
        code = self.match("u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(e)(?=\\[)|([0-7]{1,3})", at)
        if not code:
            return at
        is_escape = code[0].lower() in ("u001b", "x1b", "e", "033")
        return self.ansi(code.end()) if is_escape else code.end()

    def ansi(self, at):
        sequence = self.match(r"\[[0-9;?:]{0,40}[A-Za-z]?", at)
        return sequence.end() if sequence else at


def is_blob(part):
    has = lambda pattern: re.search(pattern, part)
    mixed = has("[a-z]") and has("[A-Z]") and has("[0-9]")
    kind = lambda c: 1 if "a" <= c <= "z" else 2 if "A" <= c <= "Z" else 3 if "0" <= c <= "9" else ord(c) if c < "\x7f" else 9
    changes = sum(kind(a) != kind(b) for a, b in zip(part, part[1:]))
    return mixed and (size(part) > 40 and not has("[._-]") or size(part) > 15 and changes * 2 > size(part))


def spans(text):
    """Ends of the spans, in characters."""
    ends, start = [], 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        end, solid, at = start + len(line), start + len(line.rstrip()), start
        if not line.strip():
            ends[-1:] = [end] * bool(ends)
        else:
            while solid - at > 200:
                piece = text[at:at + 201]
                cuts = [m.start() for m in re.finditer(r"(?<=[^ \t])[ \t]", piece) if piece[:m.start()].strip()]
                marks = ([m.start() for m in re.finditer(rf"(?<=[A-Za-z0-9])[{re.escape(marks)}]", piece)
                          if size(piece[:m.start()]) > size(piece[:200]) // 2] for marks in ("\",;([{<|&", ":=?!)]}>+*%#$"))
                at += (cuts or next(filter(None, marks), None) or [200])[-1]
                ends.append(at)
            ends.append(end)
        start = end
    return ends or [len(text)] * bool(text)


def atoms(text):
    """(kind, norm, span, whether bound) of each atom."""
    lexer, ends = Lexer(text), spans(text)
    for kind, start, _, norm, word in lexer.atoms:
        span = sum(end <= start for end in ends)
        low, high = ([0] + ends)[span], (ends + [len(text)])[span]
        near = {cue for at, number, cue in lexer.cues if low <= at < high and abs(number - word) <= 15}
        yield kind, norm, span, len(near) >= 2


if __name__ == "__main__":
    steps, features = (pq.read_table(f"{sys.argv[1]}/{name}.parquet").to_pylist() for name in ("steps", "features"))
    n, differ = 0, []
    for s, f in zip(steps, features):
        mine = list(atoms(s["text"]))
        theirs = list(zip(f["atom_kind"], f["atom"], f["atom_span"], (flags & 1 == 1 for flags in f["atom_flags"])))
        n += len(theirs)
        ends = [len(s["text"].encode()[:end].decode()) for end in f["span_end"]]
        if mine != theirs or spans(s["text"]) != ends:
            differ.append((s["trajectory"], s["step"], [a for a in mine if a not in theirs], [a for a in theirs if a not in mine]))
    for line in differ[:20]:
        print("differs:", *line)
    print(n, "atoms compared in", len(steps), "steps,", len(differ), "steps differ")
    sys.exit(bool(differ))
