"""Does a run whose parts are in a bucket of a server on this machine, by a program that was built with the feature `cloud`.

    python3 tests/cluster/s3.py PROGRAM [COMMAND ...]

Needs moto[server] on PYTHONPATH. COMMAND (tests of stores) runs with the address of an empty bucket in TRAJPRESS_TEST_STORE. A second
server forgets `If-None-Match`, as some do: it must be refused.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Dict

import boto3
from botocore.exceptions import ClientError
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = """
name = "cloud"
strategies = [{ name = "mask", keep_last = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }]
triggers = [{ name = "turns", n = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }]
"""
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}


def serve(is_careless: bool) -> Dict[str, str]:
    """Starts a server; the environment in which it is found."""
    app = DomainDispatcherApplication(create_backend_app)

    def careless(environ: Dict[str, Any], start: Any) -> Any:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return app(environ, start)

    server = make_server("127.0.0.1", 0, careless if is_careless else app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {**os.environ, **KEYS, "AWS_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}


def buckets(environment: Dict[str, str], *names: str) -> Any:
    client = boto3.client("s3", endpoint_url=environment["AWS_ENDPOINT"], region_name="us-east-1",
                          aws_access_key_id="a", aws_secret_access_key="b")  # fmt: skip
    for name in names:
        client.create_bucket(Bucket=name)
    return client


def main() -> None:
    program, at = str(Path(sys.argv[1]).resolve()), Path(tempfile.mkdtemp(prefix="tp-cloud-"))
    honest = serve(False)
    client = buckets(honest, "tests", "runs")
    client.put_object(Bucket="runs", Key="x", Body=b"1", IfNoneMatch="*")
    try:
        client.put_object(Bucket="runs", Key="x", Body=b"2", IfNoneMatch="*")
        raise SystemExit("error: this server does not honour If-None-Match, so it shows nothing")
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 412, error
    if len(sys.argv) > 2:
        subprocess.run(sys.argv[2:], env={**honest, "TRAJPRESS_TEST_STORE": "s3://tests/a run"}, check=True)

    def call(environment: Dict[str, str], *arguments: Any, **more: Any) -> subprocess.CompletedProcess[str]:
        pipe = subprocess.PIPE
        return subprocess.run(
            [program, *map(str, arguments)], cwd=at, env=environment, text=True, stdout=pipe, stderr=pipe, **more
        )

    logs = [ROOT / "datasets/support", ROOT / "datasets/templates"]
    (at / "x.toml").write_text(EXPERIMENT)
    call(honest, "ingest", *logs, "--out", "data", check=True)
    call(honest, "run", "x.toml", "--data", "data", "--out", "serial", check=True)
    of = ["x.toml", "--data", "data", "--store"]
    begun = time.monotonic()
    call(honest, "cluster", "plan", *of, "s3://runs/big", "--out", "a", check=True)
    left = call(honest, "cluster", "status", "a", "--store", "s3://runs/big", "--left", check=True).stdout.split()
    # Two machines at once, each asked for all.
    worker = [program, "cluster", "worker", *of, "s3://runs/big", "--quiet", "--out"]
    workers = [
        subprocess.Popen([*worker, name], cwd=at, env=honest, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in ("b", "c")
    ]
    for worker_of, ids in zip(workers, (left, left[::-1])):
        assert worker_of.stdin
        worker_of.stdin.write("\n".join(ids) + "\n")
        worker_of.stdin.close()
    told = [line for one in workers for line in (one.stdout or [])]
    assert all(one.wait() == 0 for one in workers), told
    outcomes = {name: sum(f'"outcome":"{name}"' in line for line in told) for name in ("done", "skipped", "lost_race")}
    assert outcomes["done"] == len(left) and sum(outcomes.values()) == 2 * len(left), told
    call(honest, "cluster", "merge", *of, "s3://runs/big", "--out", "d", check=True)
    tables = [{t.name: hashlib.sha256(t.read_bytes()).hexdigest() for t in (at / run).glob("[a-z]*.parquet")} for run in ("d", "serial")]
    assert tables[0] == tables[1], tables
    names = [item["Key"] for page in client.get_paginator("list_objects_v2").paginate(Bucket="runs") for item in page["Contents"]]
    assert len([name for name in names if "/cells/" in name]) == len(left), names
    print(f"{len(left)} units by two machines over S3: rows equal; {time.monotonic() - begun:.1f} s; {outcomes}, {len(names)} objects")
    careless = serve(True)
    buckets(careless, "runs")
    refused = call(careless, "cluster", "plan", *of, "s3://runs/big", "--out", "z")
    assert refused.returncode == 2 and "does not refuse a name that is taken" in refused.stderr, refused
    print("refused:", refused.stderr.strip())


if __name__ == "__main__":
    main()
