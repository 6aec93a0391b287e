from .client import Client, Response
from .config import Settings, load_settings
from .errors import Deadline, FetchError, TooManyAttempts

__all__ = ["Client", "Deadline", "FetchError", "Response", "Settings", "TooManyAttempts", "load_settings"]
__version__ = "2.4.1"
