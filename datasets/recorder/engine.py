"""Runs a scripted agent for real, in a temporary directory, and keeps what happened.

The thoughts and commands are written beforehand (scenarios/), the outputs are
whatever the commands print. A script may only use a value that it found in an
earlier output (`Obs.get`); if the output lacks it, recording stops with an error.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from markup import Annotations

HERE = Path(__file__).resolve().parent
EXPLORE, DEBUG, IMPLEMENT = "explore", "debug", "implement"
VERIFY, DOCUMENT, REFACTOR = "verify", "document", "refactor"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"
PLAIN_LIMIT = 12000  # characters of one tool result that the agent sees
MINI_LIMIT = 10000


class Obs:
    """One tool result, as the agent saw it."""

    def __init__(self, run, step, text, raw, rc):
        self.run, self.step, self.text, self.raw, self.rc = run, step, text, raw, rc

    def get(self, pattern, kind=None):
        """The first group of `pattern` in this output; with `kind` the match is marked salient."""
        m = re.search(pattern, self.text, re.M)
        if not m:
            raise AssertionError("%s: step %d: %r not found in:\n%s" % (self.run.task_id, self.step, pattern, self.text))
        if kind:
            start = len(self.text[:m.start()].encode("utf-8"))
            end = start + len(m.group(0).encode("utf-8"))
            self.run.notes.span(self.step, start, end, kind, m.group(0))
        return m.group(1) if m.groups() else m.group(0)


class Run:
    """One recorded trajectory. `style` is "mini" (only bash, tagged output) or "plain"."""

    def __init__(self, task_id, style, form, project, task, plant=(), system=None, fixture=None):
        self.task_id, self.style, self.form = task_id, style, form
        self.repository = project.replace("__", "/")
        self.name = project.split("__")[1]
        self.messages, self.notes, self.turns = [], Annotations(), 0
        self.submission, self.exit_status, self.resolved = "", None, None
        self.shown = "/workspace/" + self.name
        self.root = Path(tempfile.mkdtemp(prefix="trajpress-rec-")).resolve()
        self.dir = self.root / "workspace" / self.name
        self._prepare(project, plant, fixture)
        self._message(role="system", content=system or SYSTEM[style])
        text = task if style == "plain" else MINI_TASK % {"task": task.strip(), "cwd": self.shown}
        self.user(text)

    # -- the machine ------------------------------------------------------
    def _prepare(self, project, plant, fixture):
        for d in ("home", "tmp", "bin"):
            (self.root / d).mkdir(parents=True)
        os.symlink(sys.executable, self.root / "bin" / "python3")
        shutil.copytree(HERE / "projects" / project, self.dir, ignore=shutil.ignore_patterns("__pycache__"))
        for path, old, new in plant:
            file = self.dir / path
            text = file.read_text(encoding="utf-8")
            if text.count(old) != 1:
                raise AssertionError("%s: plant in %s: %r occurs %d times" % (self.task_id, path, old, text.count(old)))
            file.write_text(text.replace(old, new), encoding="utf-8")
        self.env = {
            "PATH": "%s:%s" % (self.root / "bin", os.environ.get("PATH", "/usr/bin:/bin")),
            "HOME": str(self.root / "home"), "TMPDIR": str(self.root / "tmp"), "LC_ALL": "C.UTF-8", "TZ": "UTC",
            "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80", "TERM": "dumb", "PAGER": "cat",
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_AUTHOR_NAME": "Recorder", "GIT_AUTHOR_EMAIL": "recorder@example.invalid",
            "GIT_COMMITTER_NAME": "Recorder", "GIT_COMMITTER_EMAIL": "recorder@example.invalid",
            "GIT_AUTHOR_DATE": "2024-01-01T00:00:00+0000", "GIT_COMMITTER_DATE": "2024-01-01T00:00:00+0000",
        }
        if fixture:
            self._must(fixture)
        self._must("git init -q . && git add -A && git commit -q -m 'Import' && printf 'patch.txt\\n' >> .git/info/exclude")

    def _must(self, cmd):
        rc, out = self._exec(cmd)
        if rc:
            raise AssertionError("%s: setup failed: %s\n%s" % (self.task_id, cmd, out))

    def _exec(self, cmd):
        real = re.sub(re.escape(self.shown) + r"|/tmp(?=/)",
                      lambda m: str(self.dir if m.group(0) == self.shown else self.root / "tmp"), cmd)
        p = subprocess.run(["bash", "-c", real], cwd=str(self.dir), env=self.env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return p.returncode, self._normal(p.stdout.decode("utf-8", "replace"))

    def _normal(self, text):
        """Take out what differs from run to run or machine to machine; nothing else."""
        text = text.replace(str(self.dir), self.shown)
        text = text.replace(str(self.root / "tmp"), "/tmp").replace(str(self.root / "home"), "/home/agent")
        for key in ("stdlib", "platstdlib"):
            text = text.replace(sysconfig.get_paths()[key], "/usr/lib/python3")
        text = re.sub(r"^(Ran \d+ tests? in )[\d.]+s", r"\g<1>0.001s", text, flags=re.M)
        text = re.sub(r"/tmp/cc\w{6}\.o", "/tmp/ccAAAAAA.o", text)
        text = re.sub(r"\b0x[0-9a-f]{9,16}\b", "0x7f0000000000", text)
        return re.sub(r"^bash: line \d+: ", "bash: ", text, flags=re.M)

    # -- tools --------------------------------------------------------------
    def _tool(self, name, args):
        if name == "bash":
            return self._exec(args["command"])
        file = self.dir / args["path"]
        if not file.is_file():
            return 1, "error: no such file: %s\n" % args["path"]
        text = file.read_text(encoding="utf-8")
        if name == "read_file":
            lines = text.splitlines()
            first, last = args.get("start", 1), min(args.get("end", len(lines)), len(lines))
            return 0, "".join("%5d\t%s\n" % (n, lines[n - 1]) for n in range(first, last + 1))
        if name == "replace_in_file":
            n = text.count(args["old"])
            if n != 1:
                return 1, "error: the text occurs %d times in %s, need exactly 1\n" % (n, args["path"])
            file.write_text(text.replace(args["old"], args["new"]), encoding="utf-8")
            line = text[:text.index(args["old"])].count("\n") + 1
            return 0, "replaced 1 occurrence in %s (line %d)\n" % (args["path"], line)
        raise AssertionError(name)

    def _render(self, rc, raw):
        if self.style == "mini":
            if len(raw) < MINI_LIMIT:
                return "<returncode>%d</returncode>\n<output>\n%s</output>" % (rc, raw)
            return ("<returncode>%d</returncode>\n<warning>\nThe output was too long; ask for less with head, tail, sed -n or grep.\n"
                    "</warning>\n<output_head>\n%s\n</output_head>\n<elided_chars>\n%d characters elided\n</elided_chars>\n"
                    "<output_tail>\n%s\n</output_tail>" % (rc, raw[:5000], len(raw) - MINI_LIMIT, raw[-5000:]))
        if len(raw) > PLAIN_LIMIT:
            half = PLAIN_LIMIT // 2
            raw = "%s\n[... %d characters left out ...]\n%s" % (raw[:half], len(raw) - PLAIN_LIMIT, raw[-half:])
        text = raw.rstrip("\n") or "(no output)"
        return text + ("\n[exit code %d]" % rc if rc else "")

    # -- what a script calls --------------------------------------------------
    def _message(self, **message):
        self.messages.append(message)
        return len(self.messages) - 1

    def user(self, text):
        step = len(self.messages)
        return self._message(role="user", content=self.notes.marked(text, step))

    def say(self, text, intent=None):
        """An answer without a call: the agent hands back to the user."""
        step = len(self.messages)
        if intent:
            self.notes.intents.append({"step": step, "intent": intent})
        self.turns += 1
        return self._message(role="assistant", content=self.notes.marked(text, step))

    def act(self, intent, thought, calls, fails=False):
        """One turn: a thought and its tool calls, really executed. Returns a list of Obs."""
        step = len(self.messages)
        self.turns += 1
        self.notes.intents.append({"step": step, "intent": intent})
        made = []
        for k, (name, args) in enumerate(calls):
            key = "%s/%d/%d" % (self.task_id, self.turns, k)
            made.append(("call_" + hashlib.sha256(key.encode()).hexdigest()[:20], name, args))
        self._message(role="assistant", content=self.notes.marked(thought, step), calls=made)
        seen = []
        for cid, name, args in made:
            rc, raw = self._tool(name, args)
            if bool(rc) != bool(fails) and len(calls) == 1:
                raise AssertionError("%s: turn %d: exit code %d from %s\n%s" % (self.task_id, self.turns, rc, args, raw))
            text = self._render(rc, raw)
            at = self._message(role="tool", content=text, call_id=cid, name=name, raw=raw, rc=rc)
            seen.append(Obs(self, at, text, raw, rc))
        return seen

    def sh(self, intent, thought, command, fails=False):
        return self.act(intent, thought, [("bash", {"command": command})], fails)[0]

    def read(self, intent, thought, path, start=None, end=None):
        args = {"path": path}
        if start:
            args.update(start=start, end=end)
        return self.act(intent, thought, [("read_file", args)])[0]

    def edit(self, intent, thought, path, old, new, fails=False):
        return self.act(intent, thought, [("replace_in_file", {"path": path, "old": old, "new": new})], fails)[0]

    def subtask_end(self):
        """The last turn finished a piece of the work."""
        self.notes.subtask_ends.append(len(self.messages) - 1)

    def superseded(self, key, old, new, obs=None):
        self.notes.superseded.append({"key": key, "old": str(old), "new": str(new),
                                      "step": obs.step if obs else len(self.messages) - 1})

    def probe(self, kind, question, answer, *wrong):
        """A question whose answer stands before the next message; the order of choices is fixed by a hash."""
        choices = sorted([answer] + list(wrong), key=lambda c: hashlib.sha256((question + c).encode()).digest())
        self.notes.probes.append({"step": len(self.messages) - 1, "kind": kind, "question": question,
                                  "choices": choices, "answer": answer})

    def submit(self, thought, verify):
        """mini style: hand in patch.txt. `verify` decides `resolved` and is not part of the log."""
        obs = self.sh(VERIFY, thought, SUBMIT)
        self.submission = obs.raw.split("\n", 1)[1]
        self.messages.pop()  # as in real logs: the submitting call has no tool message, the exit message follows
        self._message(role="exit", content=self.submission)
        self.finish("Submitted", verify)

    def finish(self, status, verify):
        self.exit_status = status
        self.resolved = self._exec(verify)[0] == 0

    def out_of_steps(self, verify):
        """mini style: the step limit was reached before anything was handed in."""
        self._message(role="exit", content="")
        self.finish("LimitsExceeded", verify)

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)


SYSTEM = {
    "mini": "You are a helpful assistant that can interact with a computer shell to solve programming tasks.",
    "plain": "You are a coding agent. You work in a Linux container through tools: bash, read_file and replace_in_file. "
             "Say briefly what you are about to do and why, then call a tool. Paths given to the file tools are relative to "
             "the repository root. Keep to what the user asked for, and run the tests before you report back.",
}
MINI_TASK = """<task_description>
%(task)s
</task_description>

<instructions>
You work in the repository at %(cwd)s. Every command runs in a new subshell that starts there; changes of directory and
environment do not last. Give a short reason and at least one bash call in each reply. Use non-interactive commands only.

When the work is done, hand it in with three separate commands:
1. `git diff -- FILES > patch.txt`, naming only the files you meant to change
2. look at patch.txt
3. `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt`
You cannot go on working after the third.
</instructions>"""
