"""The program, with a judge of substance that waits for its model as long as a busy machine needs."""

from __future__ import annotations

from mcp_server.__main__ import main
from mcp_server.models.questions import BoundedQuestions

PATIENCE_S = 120.0

if __name__ == "__main__":
    defaults = BoundedQuestions.__init__.__kwdefaults__ or {}
    BoundedQuestions.__init__.__kwdefaults__ = {**defaults, "longest_s": PATIENCE_S}
    main()
