"""What OpenSSL's errors mean for whoever set an address."""

from __future__ import annotations

import ssl

_NO_AGREEMENT = {
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
    "UNSUPPORTED_PROTOCOL",
    "WRONG_VERSION_NUMBER",
}


def speaks_no_tls(error: BaseException | None) -> bool:
    """Whether the other side speaks no TLS, or none that is good enough: no second try helps."""
    # One that Python code raised, rather than OpenSSL, has no reason.
    return isinstance(error, ssl.SSLError) and getattr(error, "reason", None) in _NO_AGREEMENT
