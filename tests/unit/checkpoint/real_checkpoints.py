"""The checkpoints that real Sparks left behind, and what they said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"
CASES = sorted(path.parent.parent for path in DATA.glob("spark-*/*/truth/case.json"))


def truth(case: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((case / "truth" / "case.json").read_text())
    return content
