"""Records of trust in the state database: proposals, scores and registrations, taint.

Lock order in PostgreSQL, the same for all transactions, so that no two wait for each other: trust records, the end of the audit
chain, proposals by their number, the counter of events.
"""

from __future__ import annotations

from knowledge.trust.sql_proposals import SqlProposals
from knowledge.trust.sql_registry import SqlTrustRegistry
from knowledge.trust.sql_taint import SqlTaint


class SqlTrust(SqlProposals, SqlTrustRegistry, SqlTaint):
    """Every record of trust of one knowledge base; the bases share its tables."""
