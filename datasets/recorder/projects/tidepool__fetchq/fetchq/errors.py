class FetchError(Exception):
    """Base of all errors of this package."""


class Deadline(FetchError):
    """The total time was used up."""


class TooManyAttempts(FetchError):
    def __init__(self, attempts, last_status):
        super().__init__("gave up after %d attempts, last status %s" % (attempts, last_status))
        self.attempts = attempts
        self.last_status = last_status
