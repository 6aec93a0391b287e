"""Writes the logs of tests/data/method anew: what the built-in logs do not have, of docs/method.md.

session.jsonl: a compaction with kept steps, a late result, usage, pauses. hour.jsonl: a prompt cache of an hour, and longer pauses. falk__ledger-12.traj: observations that were masked
when they were sent. words.jsonl: a line for each rule of the lexer, and a task that comes after a greeting.
"""
import datetime, json, pathlib

HERE = pathlib.Path(__file__).parents[1] / "data/method"
FILES = ["src/ledger/parse_rows.py", "src/ledger/currency.py", "tests/test_rows.py", "docs/rounding.md",
         "tools/import_bank.sh", "src/ledger/archive.py"]
SAYS = ["the importer drops rows whose currency column reads unknown_code, see ticket LED-4711",
        "the timeout of the bank gateway was raised there, connect_timeout=45, by request of the treasurer",
        "half cents are rounded by round_half_even since release v2.4.1 of the ledger",
        "archived books move to https://books.example.org/archive/2031 once the year is closed",
        "the nightly job failed with LedgerLockedError because two writers held the journal",
        "account holder Mira Falk asked that booking 80231745 be reversed before the audit"]
USES = ["I look at {0} again, which drops unknown_code rows.", "Ticket LED-4711 asks for connect_timeout=45 in {0}.",
        "round_half_even stays as it is in {0}; booking 80231745 is next.", "LedgerLockedError came from {0} under v2.4.1."]
SOUGHT = ["unknown_code", "round_half_even", "LED-4711", "LedgerLockedError"]


def listing(i):
    return (f"{FILES[i * i % 6]}\n{SAYS[i * i % 6]}\n"
            f"the auditor found that batch_{i:02}_net lacks rows of branch {i}, case AUD-{5000 + i}\nlines read: {40 + i}\n"
            + "a long remark about how the ledger came to be written over many years, " * 6)


def words(i):
    """Names of what was listed some turns ago."""
    old = i - (4, 6, 9, 5, 13)[i % 5]
    told = USES[i * 7 % 4].format(FILES[(i + 3) % 6])
    return told + (f" Before that I mend batch_{old:02}_net, which is AUD-{5000 + old}." if old >= 0 else "")


class Session:
    BASE = {"isSidechain": False, "userType": "external", "cwd": "/srv/ledger", "sessionId": None, "version": "2.1.0"}

    def __init__(self, name, pause=400, hour=0):
        """`pause`: seconds, now and then; `hour`: of 300 tokens, those that a call writes to a cache of an hour."""
        self.name, self.pause = name, pause
        self.written = {"ephemeral_5m_input_tokens": 300 - hour, "ephemeral_1h_input_tokens": hour} if hour else None
        self.lines, self.parent, self.n, self.time = [], None, 0, datetime.datetime(2031, 3, 1, 9)

    def put(self, kind, uuid, **more):
        stamp = self.time.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self.lines.append({"parentUuid": self.parent, **self.BASE, "sessionId": self.name, "type": kind, "uuid": uuid, "timestamp": stamp, **more})
        self.parent = uuid
        return uuid

    def say(self, kind, message, **more):
        self.n += 1
        # A pause in which a cache dies, now and then.
        self.time += datetime.timedelta(seconds=self.pause if self.n % 17 == 0 else 20)
        return self.put(kind, f"line-{self.n}", message={"role": kind, **message}, **more)

    def reply(self, name, content, prompt):
        usage = {"input_tokens": 5, "cache_creation_input_tokens": 300, "cache_read_input_tokens": prompt, "output_tokens": 60}
        if self.written:
            usage["cache_creation"] = self.written
        message = {"id": f"reply-{name}", "type": "message", "model": "ledger-model", "content": content, "stop_reason": None}
        return self.say("assistant", {**message, "usage": usage}, requestId=f"request-{name}")

    def call(self, i, prompt):
        command = f"cat {FILES[i % 6]}" if i % 3 else f"grep -rn {SOUGHT[i // 3 % 3]} src"
        use = {"type": "tool_use", "id": f"call-{i}", "name": "Bash", "input": {"command": command}}
        return self.reply(i, [{"type": "text", "text": words(i)}, use], prompt)

    def result(self, i):
        content = listing(i) if i % 8 != 7 else "done"
        return self.say("user", {"content": [{"type": "tool_result", "tool_use_id": f"call-{i}", "content": content}]})

    def compact(self, kept):
        end, preserved = self.parent, {"anchorUuid": "summary", "uuids": kept}
        self.parent = None
        self.put("system", "boundary", subtype="compact_boundary", content="Conversation compacted", isMeta=False, level="info",
                 logicalParentUuid=end, compactMetadata={"trigger": "auto", "preTokens": 30000, "preservedMessages": preserved})
        text = "The ledger was read; src/ledger/archive.py is still to be mended, half_open_days too."
        self.put("user", "summary", message={"role": "user", "content": text}, isCompactSummary=True,
                 isVisibleInTranscriptOnly=True)
        self.parent = end


session = Session("method-session")
session.say("user", {"content": "Mend the ledger: no row may be lost, and keep docs/rounding.md true."})
ids = []
for i in range(18):
    ids += [session.call(i, 21000 + 260 * i), session.result(i)]
    if i == 6:
        text = "Also look at tools/import_bank.sh, where the treasurer found half_open_days wrong."
        session.say("user", {"content": text})
session.compact(ids[-6:])
for i in range(18, 40):
    session.call(i, 26000 + 240 * (i - 18))
    for result in {24: [], 26: [24, 26]}.get(i, [i]):
        session.result(result)
session.reply("end", [{"type": "text", "text": "All of it is done; half_open_days and connect_timeout=45 are in."}], 32000)
(HERE / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in session.lines))

session = Session("hour-session", pause=4000, hour=200)
session.say("user", {"content": "Look which branch lacks rows, from the newest book to the oldest."})
for i in range(40, 58):
    session.call(i, 19000 + 250 * (i - 40))
    session.result(i)
(HERE / "hour.jsonl").write_text("".join(json.dumps(line) + "\n" for line in session.lines))

steps = []
history = [{"role": "system", "content": "You mend programs in a shell."},
           {"role": "user", "content": "ISSUE: rows of the ledger are lost. Begin in src/ledger/parse_rows.py."}]
for i in range(24):
    action = f"cat {FILES[(i * 2 + i // 3) % 6]}" if i % 3 else f"grep -rn {SOUGHT[i // 3 % 4]} src"
    response = f"{words(i)}\n```\n{action}\n```"
    steps.append({"action": action + "\n", "observation": listing(i), "response": response, "state": "{}", "thought": words(i)})
    history.append({"role": "assistant", "content": response, "thought": words(i), "action": action + "\n", "agent": "primary"})
    history.append({"role": "user", "content": listing(i), "agent": "primary"})
info = {"exit_status": "submitted", "model_stats": {"api_calls": 24, "tokens_sent": 40000}}
run = {"environment": "swe_main", "trajectory": steps, "history": history, "info": info}
(HERE / "falk__ledger-12.traj").write_text(json.dumps(run, indent=1))

# A line for each rule of the lexer, and what is near it and no atom.
lines = [
 "gateway stands alone and then so on with some such and here be no more than all of this read_total lies far",
 "alpha of the and for but nor yet not are was were been being has read_total has been the far_name of gamma delta",
 "12-old_total = compute(rows)", "parser/rows.py-14-old_total = compute(rows)", "rows.py-15-", "47 plain",
 "failed with ENOENT after EPIPE and UNKNOWN", "the ledger's don't it's rows' end", "a _very_ strange _word_ and _2031_ here", "3_a 12_ab a_1 12_abc_d",
 "at 0xdeadbeef in frame", "colours #ffaa00 #fa0 and #a1b2c3", "at 2031-03-01T09Z and 091500Z by L36 near 02T15", "booking A1B2C3D4 and 9FCEB02A and 9fceb02a and E0308 with F401 TS2345 R0913 C999",
 "blob aGVsbG8gd29ybGQ+aB3cD4eF5gH6= and tokenXa1B2c3D4 done", "keys ab12cd34ef56gh78x9 and abc123def456ghi", "test took (0.01s) then (12ms) now",
 "paid $5 or $1 then $1,200.50 and $1,2 and $99.9", "see #42 and a#43 &#39; #007 #123456 #1234567 issue", "cut by 27% or [ 27%] and 12%x", "open localhost:8080 or host:8080 here", "Version: 2.5 and version=3.1 and version: 7",
 "x 2>&1 port 8080>out retries=3>log", "\"street\": \"12 Elm\" and \"port\": 8042, 'limit': '77'", "count := 12 and size:=14 and width : = 15 and depth = -8 and depth = 8", "12:30 at=12:30 name:12 file:7",
 "at .5 or .25 and ..3", "pip install ledger==2.5 other>=3.1 x=2.2", "0.1.2.3 and 10.0.0.1:80 and 192.168.0.256 and 10.0.0.1:123456", "visit shop.example.com or ledger.net( and a.com", "django-3.2.1 or lib-v1.2 or a-b.c",
 "self.rows.py and self.config and self.load_rows and cls.Total and this.x_y", "ledger.utils.html and ledger.views.xml and mod.py( and a.py", "raise ledger.core.RowsError or ledger.NoError here", "ab.cd abc.de a.bc x.read_all a.readAll rows.sum( rows.total( end.The rows.into",
 "id 123e4567-e89b-12d3-a456-426614174000 and 978-3-16-148410-0 and 12-34 and 2031-03-01 and 2031-03-01 09:15 and 2031-03-T1", "LED-4711 led-4711 abc-12 a-b-1234 a-b-123 ABCDEFGHIJKL-12", "mixAbc12-3Def4567-x and Ab1-2c-3D-xyzwvutsrq-9",
 "./run and .../rows/b and ./a/b and ././x", "github.com/owner/rows/ and x.gov/y and .com/z", "on 1/2/2031 or 2031/1/2 or 1/2/31", "'x'/freq/ and (y)/rate/ and {z}/name", "TestParse/empty_input and TestParse/rows.py", "a/b and ab/12 and 1/2 s/old/new and 3s/a/b and text/plain and image/png/x",
 "and/or either/or/neither Some/Thing/Other my_a/b a/my_rows .x/y .cfg/y docs/ Big/ be/ rows/ /tmp /a /ab /usr/bin ~/notes ../up //two/three", "data/Zm9vYmFyQmF6MTIzNDU2Nzg5MEFCQ0RFRkdISUpLTE1OT1BRUlNU/x and a/aB1cD2eF3gH4iJ5kL6/b",
 "größe_maß and straße naïve 12größe café.py mail mira.falk@books.example.org a@b @user x@y.z1", "see https://a.org/x(y)_z). and http://b.org/p?q=1, (https://c.org/d) https:// x://", "use -keep --keep-last --k --x- a--b )--no *--no diff --git a/src/rows.py b/src/rows.py end",
 "say 'not found' or ''triple'' or f'raw text' and rb\"bytes here\" x'closed' and it`s` ( 'key': value )", "a \"quoted piece of more than sixty characters that is therefore none, as told\" end", "a ' lead' 'trail ' '12345a' 'a\\\\nb' <<'EOF' 'The' \"\\\\nwrapped\\\\n\" \"'inner one'\" and 'none here'",
 "escape \\\\nread_x=5 \\\\tname \\\\frows \\\\f2 \\\\u001b[31mred_name\\\\u001b[0m \\\\x1b[1mbold_name \\\\033[0mdone_name \\\\e[4munder_name \\\\101 \\\\\"x", "\u001b[31mreal_red\u001b[0m and [32mnaked_green[0m",
 "Binary files a/img/x.png and b/img/y.png differ", "+++ b/src/rows.py", "--- a/src/rows.py", "-- a/src/rows.py",
 "Makefile .gitignore and ..gitignore Dockerfile GitHub JavaScript fooBar URLs HTTPServer print( compute( file(s) class(es) TestError NewThingError AssertError IsError KeyError NoError Warning",
 "5 ms 12 seconds 30s 1.5GB 3d 7d 12 days( 4 cm= 1.2.3s 2..5 9 apples", "1.2.3rc1 2.0b1 1.0.x v2 v1.2 1.2.3seconds 10.5.txt 1.2-beta3 1.2.3.post1 V3.1 1.2.3_4 1.2.",
 "123456789 1200000000 12345678 1234567 80000000 12345678901234567890123456789012345678901",
 "word " * 60+"tail_word", "x" * 250, "key,value;" * 30, "=" * 210, "é" * 210, "  "+"a-" * 130, "  " * 120+"deep_name",
]

lines += ["14-rows.py", "map 0x7f3a9b2c1d4e5f60 #A1B2C3 #FA0 L12345 ab1cd2ef3gh4 and .5 ms then 978-316-148410 with abc-def-1234 not abc-def-123",
 "application/x_foo_bar and Alpha/Beta/Gamma", "größer naïve zz_name", "a \\tread_y b \\f_xy c \\u001b[1Gred_x d \\x1b[1Gred_y \\033[1Gred_z \\e[1Gred_v", "\u001b[2Kreal_x"]
text = "\n".join(lines) + "\n\n   \n"

def call(i, name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": f"Step {i}.", "tool_calls": [{"id": f"c{i}", "type": "function", "function": function}]}


def result(i, text):
    return {"role": "tool", "tool_call_id": f"c{i}", "content": text}


notes = ("the read_file tool takes file_path, offset=55 and line=40; the error=17 came first, and page=3\n"
         "error=18 came second, timeout=30 was set\nsecond_rows.py holds the totals of branch_total\n")
named = "src/first_rows.py, branch_total, error=17, page=3, timeout=30, timeout=60, second_rows.py, LED-4711 and 12-34."
messages = [{"role": "system", "content": "You mend programs."}, {"role": "assistant", "content": "Hello! What shall be done?"},
            {"role": "user", "content": "Mend the parser in src/first_rows.py, please."},
            call(1, "read_file", {"file_path": "src/first_rows.py", "offset": 55}), result(1, text),
            call(2, "bash", {"command": "cat notes"}), result(2, notes),
            {"role": "system", "content": "A reminder of the house: keep branch_total and src/second_rows.py."},
            call(3, "bash", {"command": "date"}), result(3, "timeout=60 is the value now, for the gateway")]
for i in range(4, 10):
    messages += [call(i, "bash", {"command": "date"}), result(i, f"nothing new at step {i} here\n" * 4)]
messages += [{"role": "assistant", "content": named}, {"role": "user", "content": "And read_total?"},
             call(11, "read_file", {"file_path": "src/rows.py", "offset": 55, "limit": 70}), result(11, "rows"),
             {"role": "assistant", "content": "read_total and read_all with KeyError, 150ms, port=8042 and retries=3."}]
run = {"task_id": "falk__words-1", "repository": "falk/words", "agent": "by-hand", "messages": messages}
(HERE / "words.jsonl").write_text(json.dumps(run) + "\n")
