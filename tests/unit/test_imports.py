"""The house's walls: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "knowledge": {"knowledge"},
    "agents": {"agents", "knowledge"},
    "mcp_server": {"mcp_server", "agents", "knowledge"},
}
ADAPTERS = {
    "knowledge.storage.memory",
    "knowledge.storage.sqlite_state",
    "knowledge.storage.sqlite_index",
    "knowledge.storage.postgres_state",
    "knowledge.ledger.memory",
    "knowledge.ledger.sqlite",
    "knowledge.ledger.postgres",
    "knowledge.trust.memory",
    "knowledge.trust.sqlite",
    "knowledge.trust.postgres",
    "agents.loop.providers.anthropic",
    "agents.loop.providers.openai_compatible",
    "agents.store_memory",
    "agents.store_sqlite",
    "agents.store_postgres",
    "agents.loop.store_memory",
    "agents.loop.store_sqlite",
    "agents.loop.store_postgres",
    "knowledge.index.memory",
    "knowledge.index.tantivy_engine",
    "knowledge.index.fts5",
    "knowledge.index.qdrant",
    "knowledge.index.qdrant_server",
    "knowledge.embed.static",
    "knowledge.embed.memory",
    "knowledge.embed.endpoint",
    "knowledge.embed.fastembed",
}
COMPOSITION = {
    "mcp_server.app",
    "mcp_server.base",
    "mcp_server.embedding",
    "mcp_server.engines",
    "mcp_server.indexing",
    "mcp_server.journeys",
    "mcp_server.models.configured",
    "mcp_server.models.places",
    "mcp_server.runs.places",
    "mcp_server.writing",
}
IMPURE = {
    "time",
    "os",
    "socket",
    "subprocess",
    "asyncio",
    "anyio",
    "httpx",
    "random",
    "apsw",
    "pathlib",
    "io",
}
PURE = [
    "knowledge/cursors.py",
    "knowledge/paths.py",
    "knowledge/tokens.py",
    "knowledge/provenance.py",
    "knowledge/document.py",
    "knowledge/chunk.py",
    "knowledge/map.py",
    "knowledge/find/rank.py",
    "knowledge/index/qdrant_points.py",
    "knowledge/embed/naming.py",
    "knowledge/embed/endpoint_wire.py",
    "knowledge/find/route.py",
    "knowledge/find/scent.py",
    "knowledge/find/snippet.py",
    "knowledge/find/analysis.py",
    "knowledge/find/keywords.py",
    "knowledge/language.py",
    "knowledge/evaluate/queries.py",
    "knowledge/evaluate/trec.py",
    "knowledge/evaluate/judge.py",
    "knowledge/evaluate/compare.py",
    "knowledge/index/report.py",
    "knowledge/ledger/acts.py",
    "knowledge/ledger/chain.py",
    "knowledge/ledger/forms.py",
    "knowledge/ledger/mentions.py",
    "knowledge/ledger/moments.py",
    "knowledge/trust/forms.py",
    "knowledge/trust/entries.py",
    "knowledge/outbox/forms.py",
    "knowledge/outbox/entries.py",
    "knowledge/merge/cut.py",
    "knowledge/merge/lines.py",
    "knowledge/merge/align.py",
    "knowledge/merge/moves.py",
    "knowledge/merge/sequence.py",
    "knowledge/merge/account.py",
    "knowledge/merge/prose.py",
    "knowledge/merge/lists.py",
    "knowledge/merge/tables.py",
    "knowledge/merge/front.py",
    "knowledge/merge/three_way.py",
    "knowledge/merge/changes.py",
    "knowledge/merge/fit.py",
    "knowledge/merge/form.py",
    "knowledge/merge/quantities.py",
    "knowledge/merge/polarity.py",
    "knowledge/merge/claim_words.py",
    "knowledge/merge/reading.py",
    "knowledge/merge/claims.py",
    "knowledge/merge/contradiction.py",
    "knowledge/merge/confidence.py",
    "knowledge/merge/provenance.py",
    "knowledge/merge/statements.py",
    "knowledge/merge/place.py",
    "knowledge/merge/dated.py",
    "knowledge/merge/cells.py",
    "knowledge/merge/splice.py",
    "knowledge/merge/rewording.py",
    "knowledge/merge/page_index.py",
    "knowledge/merge/weighing.py",
    "knowledge/merge/weigh_prose.py",
    "knowledge/merge/weigh_blocks.py",
    "knowledge/merge/weigh_rows.py",
    "knowledge/merge/weigh_keys.py",
    "knowledge/merge/placing.py",
    "knowledge/merge/log_entries.py",
    "knowledge/merge/evidence.py",
    "knowledge/merge/undecided.py",
    "knowledge/merge/corroboration.py",
    "knowledge/merge/link_spans.py",
    "knowledge/merge/links.py",
    "knowledge/merge/verify.py",
    "knowledge/merge/diff.py",
    "agents/bounds.py",
    "agents/agent.py",
    "agents/asking.py",
    "agents/citing.py",
    "agents/composing.py",
    "agents/build/work.py",
    "agents/build/plan.py",
    "agents/build/conditions.py",
    "agents/curate/work.py",
    "agents/curate/record.py",
    "agents/curate/deeds.py",
    "agents/curate/conditions.py",
    "agents/conversations.py",
    "agents/documents.py",
    "agents/cognitive/closing.py",
    "agents/cognitive/cognitive.py",
    "agents/cognitive/definition.py",
    "agents/cognitive/material.py",
    "agents/cognitive/memory_document.py",
    "agents/cognitive/opening.py",
    "agents/cognitive/sections.py",
    "agents/cognitive/setting.py",
    "agents/cognitive/sources.py",
    "agents/errors.py",
    "agents/findings.py",
    "agents/learning.py",
    "agents/metrics.py",
    "agents/orchestrate/work.py",
    "agents/orchestrate/record.py",
    "agents/orchestrate/durations.py",
    "agents/orchestrate/order.py",
    "agents/orchestrate/scoring.py",
    "agents/orchestrate/beginning.py",
    "agents/orchestrate/budget.py",
    "agents/orchestrate/checks.py",
    "agents/orchestrate/rules.py",
    "agents/orchestrate/conditions.py",
    "agents/context.py",
    "agents/feedback.py",
    "agents/loop/bounding.py",
    "agents/loop/decision.py",
    "agents/loop/drafting.py",
    "agents/loop/errors.py",
    "agents/loop/explained.py",
    "agents/loop/frames.py",
    "agents/loop/run.py",
    "agents/loop/store.py",
    "agents/loop/store_forms.py",
    "agents/loop/tools.py",
    "agents/loop/transcript.py",
    "agents/misfits.py",
    "agents/position.py",
    "agents/prompting.py",
    "agents/questions.py",
    "agents/research/work.py",
    "agents/research/tree.py",
    "agents/research/conditions.py",
    "agents/report.py",
    "agents/report_spent.py",
    "agents/understand/work.py",
    "agents/understand/course.py",
    "agents/understand/conditions.py",
    "agents/work.py",
    "agents/work_words.py",
    "agents/events.py",
    "agents/fitting.py",
    "agents/fold.py",
    "agents/loop/provider.py",
    "agents/loop/provider_errors.py",
    "agents/loop/providers/access.py",
    "agents/loop/providers/anthropic_wire.py",
    "agents/loop/providers/failures.py",
    "agents/loop/providers/history.py",
    "agents/loop/providers/openai_chat_wire.py",
    "agents/loop/providers/openai_responses_wire.py",
    "agents/loop/providers/reading.py",
    "agents/loop/providers/strict.py",
    "agents/loop/providers/usage.py",
    "agents/loop/providers/wire.py",
    "agents/graph.py",
    "agents/journey.py",
    "agents/state.py",
    "agents/skills/building.py",
    "agents/skills/definition.py",
    "agents/saying.py",
    "agents/skills/seating.py",
    "agents/skills/skill.py",
    "agents/store.py",
    "agents/store_forms.py",
    "agents/store_recent.py",
    "agents/journey_file.py",
    "agents/team/block.py",
    "agents/team/combining.py",
    "agents/team/conditions.py",
    "agents/team/definition.py",
    "agents/team/field_path.py",
    "agents/team/files.py",
    "agents/team/form.py",
    "agents/team/grounding.py",
    "agents/team/leaves.py",
    "agents/team/marked.py",
    "agents/team/misfitting.py",
    "agents/team/phases.py",
    "agents/team/predicates.py",
    "agents/team/predicates_heard.py",
    "agents/team/predicates_looking.py",
    "agents/team/problems.py",
    "agents/team/reading.py",
    "agents/team/schema.py",
    "agents/team/telling.py",
    "agents/team/ways.py",
    "mcp_server/cli/agent_view.py",
    "mcp_server/cli/journey_view.py",
    "mcp_server/cli/review_card.py",
    "mcp_server/cli/review_view.py",
    "mcp_server/cli/visible.py",
    "mcp_server/connectors/answers.py",
    "mcp_server/connectors/bodies.py",
    "mcp_server/connectors/errors.py",
    "mcp_server/connectors/mentions.py",
    "mcp_server/connectors/moments.py",
    "mcp_server/connectors/names.py",
    "mcp_server/connectors/showing.py",
    "mcp_server/connectors/wire.py",
    "mcp_server/gate/policy.py",
    "mcp_server/journey_words.py",
    "mcp_server/plane/acts.py",
    "mcp_server/plane/embedded.py",
    "mcp_server/plane/model.py",
    "mcp_server/plane/readback.py",
    "mcp_server/plane/walking.py",
    "mcp_server/plane/wire.py",
    "mcp_server/plane/judging.py",
    "mcp_server/plane/elements.py",
    "mcp_server/plane/text.py",
    "mcp_server/plane/writing.py",
    "mcp_server/plane/queries.py",
    "mcp_server/zulip/links.py",
    "mcp_server/zulip/acts.py",
    "mcp_server/zulip/cursors.py",
    "mcp_server/zulip/model.py",
    "mcp_server/zulip/notice_text.py",
    "mcp_server/zulip/places.py",
    "mcp_server/zulip/splitting.py",
    "mcp_server/zulip/wire.py",
    "mcp_server/review/alike.py",
    "mcp_server/review/changes.py",
    "mcp_server/review/diffs.py",
    "mcp_server/review/graph_drawing.py",
    "mcp_server/review/graph_folding.py",
    "mcp_server/review/graph_layout.py",
    "mcp_server/review/inert.py",
    "mcp_server/review/journey_views.py",
    "mcp_server/review/texts.py",
    "mcp_server/review/views.py",
    "mcp_server/review/response_views.py",
    "mcp_server/review/work_views.py",
    "knowledge/lean_schema.py",
    "knowledge/misfits.py",
    "mcp_server/setting_notes.py",
    "mcp_server/wire_errors.py",
    "mcp_server/zuliprc.py",
    "mcp_server/reference.py",
]


def modules() -> list[Path]:
    return [
        path
        for package in MAY_IMPORT
        for path in sorted((ROOT / package).rglob("*.py"))
        if "handbook" not in path.parts
    ]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def family(name: str) -> str:
    """Return the package that an adapter belongs to; ledger and trust lie in the database of the state store that hands them out."""
    package = name.rpartition(".")[0]
    return "knowledge.storage" if package in ("knowledge.ledger", "knowledge.trust") else package


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    """The design, section 1: mcp_server -> agents -> knowledge."""
    package = name_of(path).partition(".")[0]
    ours = {name.partition(".")[0] for name in imported(path)} & set(MAY_IMPORT)
    assert ours <= MAY_IMPORT[package]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_the_composition_root_chooses_adapters(path: Path) -> None:
    if name_of(path) in COMPOSITION:
        return
    used = imported(path) & ADAPTERS
    same_family = {name for name in used if family(name) == family(name_of(path))}
    assert used == same_family, "an adapter is chosen in mcp_server/app.py only"


@pytest.mark.parametrize("path", PURE)
def test_pure_files_touch_no_clock_disk_or_network(path: str) -> None:
    assert not {name.partition(".")[0] for name in imported(ROOT / path)} & IMPURE


def test_only_the_edge_knows_mcp_exists() -> None:
    for path in modules():
        if name_of(path).partition(".")[0] != "mcp_server":
            assert not {name.partition(".")[0] for name in imported(path)} & {"mcp", "mcp_types"}, path


def test_only_settings_reads_the_environment() -> None:
    """One frozen object is handed around instead; hosts need to know where a home directory is, and take it as an argument."""
    for path in modules():
        if name_of(path) == "mcp_server.settings":
            continue
        text = path.read_text(encoding="utf-8")
        assert "os.environ" not in text, path
        assert "getenv" not in text, path
