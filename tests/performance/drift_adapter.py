"""A nightly series as the drift scorer hands it over: when our detector reports which change.

    python tests/performance/drift_adapter.py FILE

FILE is JSON with "values", one a night, larger is better; nothing else of it is read. The last
line printed is {"reports": [[nights_seen, night_of_change], ...]}, for a job that is rerun every
night from night 20 on: what is sure earlier is reported then.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.model import drift

FIRST = 20


def reports(values: Sequence[float]) -> list[tuple[int, int]]:
    """(nights seen, night of the change), each change once."""
    slower = [-math.log(value) for value in values]
    return [(max(FIRST, c.told + 1), c.at) for c in drift.course(slower).changes]


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())["values"]
    print(json.dumps({"reports": reports(given)}))
