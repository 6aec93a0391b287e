"""Answers of a local model, by `trajpress models call`."""
import json
import subprocess
import threading
import time


def ask(program, model, calls, out, seconds):
    """The answers of the first calls, as many as come in so many seconds; what was answered before is in OUT/calls.sqlite."""
    begun = time.monotonic()
    command = [program, "models", "call", model, "--threads", "2", "--quiet", "--cache", str(out / "calls.sqlite")]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends = threading.Timer(seconds, child.terminate)
    ends.start()

    def write():
        try:
            child.stdin.write("".join(json.dumps(call) + "\n" for call in calls))
            child.stdin.close()
        except BrokenPipeError:
            pass
    threading.Thread(target=write).start()
    answers = [json.loads(line) for line in child.stdout if line.endswith("\n")]
    ended = child.wait()
    was_stopped = not ends.is_alive()
    ends.cancel()
    if ended not in (0, 1) and not was_stopped:
        raise SystemExit(f"{' '.join(command)} ended with {ended}")
    print(len(answers), "of", len(calls), "calls of", model, "answered in", round(time.monotonic() - begun), "s", flush=True)
    return answers


def likelihood(tokens):
    return sum(t["logprob"] for t in tokens)
