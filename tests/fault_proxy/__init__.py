"""A fault-injecting HTTP/1.1 proxy that stands between a client and a real server.

::

    with FaultProxy(server.endpoint) as proxy:
        proxy.add(Fault(match=Match("POST", r"/merge/"), action=LoseResponse()))
        ...  # a client of proxy.endpoint
        assert proxy.count("POST", r"/merge/") == 1
"""

from tests.fault_proxy.proxy import FaultProxy
from tests.fault_proxy.rules import (
    Action,
    Answer,
    CallAfter,
    CallBefore,
    CallMidRequest,
    CallMidResponse,
    CorruptByte,
    CutBefore,
    CutRequest,
    CutResponse,
    DelayRequest,
    DelayResponse,
    Exchange,
    Fault,
    LateRequest,
    LoseResponse,
    Match,
    Trickle,
    Truncate,
)

__all__ = [
    "Action",
    "Answer",
    "CallAfter",
    "CallBefore",
    "CallMidRequest",
    "CallMidResponse",
    "CorruptByte",
    "CutBefore",
    "CutRequest",
    "CutResponse",
    "DelayRequest",
    "DelayResponse",
    "Exchange",
    "Fault",
    "FaultProxy",
    "LateRequest",
    "LoseResponse",
    "Match",
    "Trickle",
    "Truncate",
]
