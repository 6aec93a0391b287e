"""Installs the peers, runs them over real logs and keeps the rows: `make peers`.

    python3 examples/peers/run.py TRAJPRESS [EXPERIMENT...]

TRAJPRESS_LOGS names the folder of the logs, PYTHON a Python 3.12 or 3.13, PEERS_MODEL the weights of the peers that ask a model (a
file in GGUF), LLMLINGUA2 a folder of its weights. What cannot be had is left out with a line that says SKIPPED.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / "target/peers"
KEPT = ROOT / "reports/peers"
LLAMA = "xllamacpp==2026.10.11549"
PINS = {
    "langchain": ["langchain==1.5.2", "langchain-core==1.8.3", LLAMA],
    "openhands": ["openhands-sdk==1.58.2", LLAMA],
    "headroom": ["headroom-ai==0.42.0"],
    "distil": ["distil-llm==1.58.0"],
    "ctxprune": ["ctxprune==0.2.1"],
    "llmlingua": ["llmlingua==0.2.2"],
}
# Of no use without weights: a heavy package, and what asks a model.
NEEDS = {"llmlingua": "LLMLINGUA2", "langchain_summarization": "PEERS_MODEL", "openhands_condenser": "PEERS_MODEL"}
EXPERIMENTS = ["experiment", "by_model"]


def skipped(what: str, why: str) -> None:
    print(f"SKIPPED: {what}: {why}", flush=True)


def lacks(name: str) -> str:
    """Which weights it needs that nobody has named."""
    needed = NEEDS.get(name)
    return f"{needed} names no weights" if needed and not os.environ.get(needed) else ""


def install(name: str) -> None:
    folder, pins = MADE / name, PINS[name]
    done = folder / "pins.txt"
    if done.is_file() and done.read_text() == "\n".join(pins):
        return
    if lacks(name):
        return skipped(name, lacks(name))
    print(f"== install {' '.join(pins)}", flush=True)
    python = os.environ.get("PYTHON", sys.executable)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins]
    for command in ([python, "-m", "venv", "--clear", str(folder)], pip):
        if subprocess.run(command).returncode != 0:
            return skipped(name, "it cannot be installed")
    done.write_text("\n".join(pins))


def fails(command: list) -> str:
    """Why a program does not greet; empty if it does."""
    if why := lacks(Path(command[-1]).stem):
        return why
    try:
        asked = json.dumps({"protocol": 1}) + "\n"
        said = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if said.returncode == 0 and said.stdout.startswith("{"):
        return ""
    return ([line for line in said.stderr.splitlines() if line.strip()] or ["no word"])[-1]


def with_those_that_start(name: str) -> Path:
    """The experiment without the programs that do not start."""
    head, *blocks = (KEPT / f"{name}.toml").read_text().split("[[strategies]]\n")
    for block in blocks:
        strategy = tomllib.loads(block.split("[[triggers]]")[0])
        why = fails(strategy["command"]) if "command" in strategy else ""
        if why:
            skipped(strategy["command"][-1], why)
        else:
            head += "[[strategies]]\n" + block
    path = MADE / f"{name}.toml"
    path.write_text(head)
    return path


def main() -> None:
    trajpress = str(Path(sys.argv[1]).resolve())
    logs = os.environ.get("TRAJPRESS_LOGS")
    if not logs:
        return skipped("peers", "TRAJPRESS_LOGS names no folder of logs")
    logs = str(Path(logs).resolve())
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    MADE.mkdir(parents=True, exist_ok=True)
    for name in PINS:
        install(name)
    data = MADE / "data"
    # Status 1 is that some files are no logs.
    if subprocess.run([trajpress, "ingest", logs, "--out", str(data), "--fresh", "--quiet"]).returncode > 1:
        sys.exit("the logs cannot be read")
    for name in sys.argv[2:] or EXPERIMENTS:
        run = MADE / name
        subprocess.run([trajpress, "run", str(with_those_that_start(name)), "--data", str(data), "--out", str(run), "--fresh"], check=True)
        subprocess.run([trajpress, "report", str(run), "--population", "these"], check=True)
        shutil.copy(run / "report/summary.csv", KEPT / f"{name}.csv")
    subprocess.run([sys.executable, str(KEPT / "tables.py")], check=True)


main()
