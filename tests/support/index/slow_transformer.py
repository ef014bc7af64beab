"""The command line with a transformer that takes a moment for each batch, so that a test can kill it halfway."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from knowledge.index import vector_renewal
from knowledge.index.embed.onnx.embedder import Encoded, OnnxModel
from mcp_server.__main__ import main

BATCH_S = 0.3


def slow(run: object) -> object:
    def ran(self: OnnxModel, encoded: Sequence[Encoded], *, asking: bool) -> NDArray[np.float32]:
        time.sleep(BATCH_S)
        found: NDArray[np.float32] = run(self, encoded, asking=asking)  # type: ignore[operator]  # the method itself
        return found

    return ran


if __name__ == "__main__":
    vector_renewal.FIRST_BATCH = vector_renewal.SMALLEST_BATCH = vector_renewal.BATCH = 32
    OnnxModel.run = slow(OnnxModel.run)  # type: ignore[method-assign, assignment]  # slower, and the same
    sys.exit(main(sys.argv[1:]))
