from fetchq import Client, Response, load_settings
from fetchq.clock import FakeClock

URL = "https://ledger.example.invalid/v2/entries"
HOST = "ledger.example.invalid"


def client(script, **env):
    """A client whose transport answers from `script`: a list of (status, headers)."""
    answers = iter(script)

    def transport(method, url):
        status, headers = next(answers)
        return Response(status, headers, b"")
    environ = {"FETCHQ_" + key.upper(): str(value) for key, value in env.items()}
    return Client(load_settings(environ=environ), transport, clock=FakeClock())
