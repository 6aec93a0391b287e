"""Settings: defaults, then the file, then the environment."""
import configparser
import os
from collections import namedtuple

DEFAULTS = {
    "timeout_s": 30,
    "max_attempts": 4,
    "base_delay_ms": 250,
    "factor": 2,
    "max_delay_ms": 4000,
    "per_host": 6,
    "burst": 12,
}

Settings = namedtuple("Settings", sorted(DEFAULTS))


def load_settings(path=None, environ=None):
    environ = os.environ if environ is None else environ
    values = dict(DEFAULTS)
    if path:
        parser = configparser.ConfigParser()
        with open(path, encoding="utf-8") as handle:
            parser.read_file(handle)
        for key, text in parser.items("fetchq"):
            if key not in DEFAULTS:
                raise ValueError("%s: unknown setting %r" % (path, key))
            values[key] = int(text)
    for key in DEFAULTS:
        name = "FETCHQ_" + key.upper()
        if name in environ:
            values[key] = int(environ[name])
    return Settings(**values)
