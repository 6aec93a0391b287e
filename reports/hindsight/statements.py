"""Statements of a text, by src/text/sentences.rs: a sentence within a line, a text within a line of JSON, a list with its opening line."""
import pathlib
import re
import tomllib

MAX_CHARS = 600
WORDS = pathlib.Path(__file__).parents[2] / "src/data/words/abbreviations.toml"
SHORT = {word for words in tomllib.loads(WORDS.read_text(encoding="utf-8")).values() for word in words}
MARKS = {"#", "##", "###", "//", "///", "--", "-", "*", "•", ">", "/*", "|"}
ENTRY = re.compile(r"[0-9]{1,2}[.)]")
END = re.compile(r"[.!?。！？][.!?\"”')\]*]*")


def trimmed(text, start, end):
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, max(start, end - len(piece) + len(piece.rstrip()))


def is_time(word):
    return sum(c.isdigit() for c in word) >= 4 and (":" in word or "-" in word) and re.fullmatch(r"[0-9:.,\-TZ+\[\]]+", word)


def without_prefix(text, start, end):
    words = text[start:end].split(None, 5)
    first = words[0] if words else ""
    if first in MARKS:
        return trimmed(text, start + len(first), end)
    if is_time(first):
        last = first
        for word in words[1:4]:
            is_level = len(word) > 2 and re.fullmatch("[A-Z:]+", word)
            if word.endswith(":"):
                last = word
                break
            if not (is_level or is_time(word)) and last is not first:
                break
            if is_level or is_time(word):
                last = word
        return trimmed(text, text.index(last, start) + len(last), end)
    file, _, number = first.partition(":")
    is_place = ("/" in file or "." in file) and len(number) > 1 and re.fullmatch("[0-9:]*:", number)
    return trimmed(text, start + len(first), end) if is_place else (start, end)


def texts_within(text, start, end):
    """Texts in a line of JSON that have four words and are no keys."""
    found, opened, at = [], None, start
    while at < end:
        c = text[at]
        if c == "\\" and opened is not None:
            at += 1
        elif c == '"' and opened is None:
            opened = at + 1
        elif c == '"':
            is_key = text[at + 1:min(at + 20, end)].lstrip().startswith(":")
            if not is_key and len(text[opened:at].split(None, 4)) >= 4:
                found.append((opened, at))
            opened = None
        at += 1
    return found


def is_abbreviated(before):
    word = (before.split() or [""])[-1]
    word = word.lstrip('("“')
    alone = len(before.lstrip()) == len(word)
    return len(word) == 1 and word.isalpha() or alone and len(word) < 3 and re.fullmatch("[0-9]*", word) is not None \
        or word.lower() in SHORT


def push(text, start, end, found):
    start, end = trimmed(text, start, end)
    if not any(c.isalnum() for c in text[start:end]):
        return
    if end - start > MAX_CHARS:
        cut = max(text.rfind(c, start, start + MAX_CHARS) for c in " \t\n")
        start, end = trimmed(text, start, cut if cut > start else start + MAX_CHARS)
    found.append((start, end))


def sentences(text, start, end, found):
    for mark in END.finditer(text, start, end):
        at_space = mark.end() >= end or text[mark.end()].isspace()
        if (text[mark.start()] in "。！？" or at_space) and not (
                text[mark.start()] == "." and is_abbreviated(text[max(start, mark.start() - 40):mark.start()])):
            push(text, start, mark.end(), found)
            start = mark.end()
    push(text, start, end, found)


def of_line(text, start, end, found):
    start, end = without_prefix(text, start, end)
    piece = text[start:end]
    inner = texts_within(text, start, end) if piece[:1] in ("{", "[") or piece[:1] == '"' and '": ' in piece else ()
    for part in inner or [(start, end)]:
        sentences(text, *part, found)


def statements(text, lists):
    """Ranges of characters, in order. `lists`: a numbered list is one statement with the line before it."""
    lines, at = [], 0
    for line in text.split("\n"):
        lines.append(trimmed(text, at, at + len(line)))
        at += len(line) + 1
    found, i = [], 0
    while i < len(lines):
        start, end = lines[i]
        i += 1
        if start == end or text.startswith("```", start):
            continue
        if lists and text[end - 1] == ":":
            j = i
            while j < len(lines) and ENTRY.match(text, *lines[j]) and lines[j][1] - start <= MAX_CHARS:
                j += 1
            if j > i + 1:
                found.append((start, lines[j - 1][1]))
                i = j
                continue
        of_line(text, start, end, found)
    return found
