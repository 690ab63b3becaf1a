"""Which Spark settings may be shown, by their names."""

from __future__ import annotations

import re

_HARMLESS = re.compile(
    r"spark\.(?:"
    r"master|app\.name|submit\.deployMode|cores\.max|default\.parallelism|serializer"
    r"|pyspark\.(?:python|driver\.python)"
    r"|(?:driver|executor)\.(?:cores|instances|memory\w*|maxResultSize|host|port|bindAddress)"
    r"|(?:cleaner|dynamicAllocation|excludeOnFailure|files|io|locality|memory|python\.worker|rdd"
    r"|reducer|resources|rpc|scheduler|shuffle|speculation|stage|storage|task)(?:\.[\w.]+)?"
    r"|network\.(?:timeout\w*|io\.[\w.]+)|ui\.[\w.]+|eventLog\.[\w.]+"
    r"|sql\.(?:adaptive|ansi|autoBroadcastJoinThreshold|broadcastTimeout|caseSensitive|columnVector"
    r"|codegen|csv|debug|execution|extensions|files|hive\.[\w.]*[pP]artition\w*|inMemory\w*|json"
    r"|legacy|optimizer|orc|parquet|repl|session|shuffle|sources|statistics|streaming|thriftServer"
    r"|ui|variable|warehouse)(?:\.[\w.]+)?"
    r"|databricks\.delta\.[\w.]+"
    r")"
)
"""Names of Spark settings that hold no secret. `spark.hadoop`, catalogs and Java options may."""

_TELLING = re.compile(
    r"secret|passw|pwd|token|credential|auth|jaas|signature|private|\bsas\b|key$", re.IGNORECASE
)
"""In the name of a setting: whatever the value looks like, it is a secret."""


def is_harmless(name: str) -> bool:
    """Whether the Spark setting of that name may be shown."""
    return _HARMLESS.fullmatch(name) is not None and not is_telling(name)


def is_telling(name: str) -> bool:
    """Whether the name of a setting says that it holds a secret."""
    return _TELLING.search(name) is not None
