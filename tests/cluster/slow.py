"""A strategy that changes nothing and takes its time. At the goal that the file `poisonous-goal` beside it names it kills who asks."""

import json
import os
import signal
import sys
import time
from pathlib import Path

here = Path(__file__).parent
for line in sys.stdin:
    event = json.loads(line)
    if "event" not in event:
        print(json.dumps({"protocol": 1, "name": "slow", "version": "1"}), flush=True)
        continue
    goal = event["goal"] or ""
    with (here / "goals").open("a") as goals:
        goals.write(json.dumps(goal) + "\n")
    if (here / "poisonous-goal").exists() and json.loads((here / "poisonous-goal").read_text()) == goal:
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(0.2)
    print(json.dumps({"event": event["event"], "edits": []}), flush=True)
