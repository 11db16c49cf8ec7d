"""What the page calls in its Python: the calls of `fencelock.lab.page`, as text that is JSON."""

from __future__ import annotations

import json
from typing import Any

from fencelock.errors import FencelockError
from fencelock.lab.page import NESTED
from fencelock.lab.recorded import exported
from fencelock.lab.universe import played

CALLS = {"play": played, "export": exported}


def answer(call: str, body: str) -> str:
    """Answer one call of the page: {"answer": ...}, or {"error": why not}."""
    said: dict[str, Any]
    try:
        said = {"answer": CALLS[call](json.loads(body))}
    except FencelockError as error:
        said = {"error": str(error)}
    except RecursionError:
        said = {"error": NESTED}
    except Exception as error:
        said = {"error": f"a defect of the lab, please report it: {error!r}"}
    return json.dumps(said, ensure_ascii=False)
