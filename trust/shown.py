"""What a node is shown of a file system's secret, as `Secret::shown_to` makes it."""

import hmac


def shown_to(secret: str, node: str) -> str:
    return hmac.new(secret.encode(), f"shown to {node}".encode(), "sha256").hexdigest()
