"""When to try again, and after how long."""

RETRY_STATUS = {429, 500, 502, 503, 504}


def should_retry(status, attempt, settings):
    return status in RETRY_STATUS and attempt < settings.max_attempts


def backoff_ms(attempt, settings):
    """Wait after the `attempt`-th try (1 is the first)."""
    delay = settings.base_delay_ms * settings.factor ** (attempt - 1)
    return min(delay, settings.max_delay_ms)


def delay_ms(attempt, headers, settings):
    """The server's wish, if it sent one, else exponential backoff."""
    wish = headers.get("retry-after")
    if wish is not None and wish.strip().isdigit():
        return int(wish) * 1000
    return backoff_ms(attempt, settings)
