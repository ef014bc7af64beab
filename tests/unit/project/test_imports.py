"""The layers of the code: who may import whom."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.bench.house.source import blocks

ROOT = Path(__file__).parents[3]
MAY_IMPORT = {
    "knowledge": {"knowledge"},
    "agents": {"agents", "knowledge"},
    "mcp_server": {"mcp_server", "agents", "knowledge"},
}
ADAPTERS = {
    "knowledge.state.sqlite.store",
    "knowledge.index.store.sqlite",
    "knowledge.state.postgres.store",
    "agents.loop.providers.anthropic.provider",
    "agents.loop.providers.openai.provider",
    "agents.store.sql",
    "agents.store.postgres",
    "agents.loop.store.sql",
    "knowledge.index.engines.tantivy_keywords",
    "knowledge.index.engines.fts5",
    "knowledge.index.engines.qdrant.engine",
    "knowledge.index.engines.qdrant.server",
    "knowledge.index.embed.static",
    "knowledge.index.embed.endpoint",
    "knowledge.index.embed.fastembed",
    "knowledge.index.embed.onnx.embedder",
}
COMPOSITION = {
    "mcp_server.app.access.reading_views",
    "mcp_server.app.composition",
    "mcp_server.app.knowledge_base",
    "mcp_server.app.background",
    "mcp_server.app.factories.endpoint_embedder",
    "mcp_server.app.factories.keywords",
    "mcp_server.app.factories.postgres",
    "mcp_server.app.factories.whole_state",
    "mcp_server.app.factories.embedder",
    "mcp_server.app.factories.reranker",
    "mcp_server.app.factories.engines",
    "mcp_server.workers.index_steps",
    "mcp_server.app.factories.journey_store",
    "mcp_server.models.language_model",
    "mcp_server.models.locations",
    "mcp_server.runs.locations",
    "mcp_server.app.factories.writer",
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
    "knowledge/wire/cursors.py",
    "knowledge/pages/paths.py",
    "knowledge/tokens.py",
    "knowledge/pages/claim_source.py",
    "knowledge/pages/document.py",
    "knowledge/pages/markdown/chunk.py",
    "knowledge/pages/map_view.py",
    "knowledge/search/ranking/fusion.py",
    "knowledge/index/engines/server_filters.py",
    "knowledge/index/engines/qdrant/points.py",
    "knowledge/index/embed/identity.py",
    "knowledge/index/embed/endpoint_wire.py",
    "knowledge/search/answers.py",
    "knowledge/search/scent/signs.py",
    "knowledge/search/scent/counted_words.py",
    "knowledge/search/scent/verdict.py",
    "knowledge/search/snippet.py",
    "knowledge/search/query/analysis.py",
    "knowledge/search/query/keywords.py",
    "knowledge/pages/markdown/language.py",
    "knowledge/evaluate/queries.py",
    "knowledge/evaluate/trec.py",
    "knowledge/evaluate/judge.py",
    "knowledge/evaluate/compare.py",
    "knowledge/history/acts.py",
    "knowledge/history/audit/chain.py",
    "knowledge/history/codec.py",
    "knowledge/history/audit/mentions.py",
    "knowledge/history/timestamps.py",
    "knowledge/trust/codec.py",
    "knowledge/trust/audit_entries.py",
    "knowledge/outbox/codec.py",
    "knowledge/outbox/audit_entries.py",
    "knowledge/merge/document/units.py",
    "knowledge/merge/three_way/line_join.py",
    "knowledge/merge/three_way/alignment.py",
    "knowledge/merge/three_way/moves.py",
    "knowledge/merge/three_way/sequence.py",
    "knowledge/merge/three_way/line_account.py",
    "knowledge/merge/three_way/kinds/prose.py",
    "knowledge/merge/three_way/kinds/lists.py",
    "knowledge/merge/three_way/kinds/tables.py",
    "knowledge/merge/three_way/kinds/front_matter.py",
    "knowledge/merge/three_way/join.py",
    "knowledge/merge/three_way/unit_changes.py",
    "knowledge/merge/normalise.py",
    "knowledge/merge/document_form.py",
    "knowledge/merge/claims/quantities.py",
    "knowledge/merge/claims/polarity.py",
    "knowledge/merge/claims/lexicon.py",
    "knowledge/merge/claims/statement_reader.py",
    "knowledge/merge/claims/claim.py",
    "knowledge/merge/claims/contradiction.py",
    "knowledge/merge/claims/comparison.py",
    "knowledge/merge/setting.py",
    "knowledge/merge/evidence/confidence.py",
    "knowledge/merge/document/unit_origins.py",
    "knowledge/merge/claims/statements.py",
    "knowledge/merge/evidence/place/placement.py",
    "knowledge/merge/document/dated_log.py",
    "knowledge/merge/evidence/weigh/table.py",
    "knowledge/merge/splice.py",
    "knowledge/merge/evidence/place/list_form.py",
    "knowledge/merge/evidence/weigh/page_index.py",
    "knowledge/merge/evidence/weighing_state.py",
    "knowledge/merge/evidence/outcome.py",
    "knowledge/merge/evidence/place/vectors.py",
    "knowledge/merge/evidence/place/sister_pages.py",
    "knowledge/merge/evidence/place/page_signs.py",
    "knowledge/merge/evidence/place/text_form.py",
    "knowledge/merge/evidence/place/page_choice.py",
    "knowledge/merge/evidence/weigh/prose_comparison.py",
    "knowledge/merge/evidence/weigh/prose.py",
    "knowledge/merge/evidence/weigh/blocks.py",
    "knowledge/merge/evidence/weigh/rows.py",
    "knowledge/merge/evidence/weigh/keys.py",
    "knowledge/merge/evidence/place/insertion.py",
    "knowledge/merge/evidence/place/log_entries.py",
    "knowledge/merge/evidence/merge.py",
    "knowledge/merge/evidence/undecided.py",
    "knowledge/merge/evidence/corroboration.py",
    "knowledge/merge/document/link_spans.py",
    "knowledge/merge/document/links.py",
    "knowledge/pages/links.py",
    "knowledge/merge/damage.py",
    "knowledge/merge/unified_diff.py",
    "agents/bounds.py",
    "agents/engine/agent.py",
    "agents/engine/work/answers.py",
    "agents/engine/evidence/quote_check.py",
    "agents/engine/progress/composition.py",
    "agents/library/build/plan.py",
    "agents/library/build/conditions.py",
    "agents/library/curate/record.py",
    "agents/library/curate/acts_on_record.py",
    "agents/library/curate/conditions.py",
    "agents/engine/progress/conversations.py",
    "agents/memory_documents.py",
    "agents/library/cognitive/phases/last_phases.py",
    "agents/library/cognitive/model.py",
    "agents/library/cognitive/definition.py",
    "agents/library/cognitive/phases/material.py",
    "agents/library/cognitive/phases/memory_document.py",
    "agents/library/cognitive/phases/first_phases.py",
    "agents/library/cognitive/phases/prompt_sections.py",
    "agents/library/cognitive/setting.py",
    "agents/library/cognitive/sources.py",
    "agents/errors.py",
    "agents/engine/work/gaps.py",
    "agents/engine/evidence/learned.py",
    "agents/engine/progress/metrics.py",
    "agents/library/orchestrate/record.py",
    "agents/library/orchestrate/plan_rules/durations.py",
    "agents/library/orchestrate/plan_rules/order.py",
    "agents/library/orchestrate/scores.py",
    "agents/library/orchestrate/plan_rules/checks.py",
    "agents/library/orchestrate/plan_rules/rules.py",
    "agents/library/orchestrate/conditions.py",
    "agents/prompts/context.py",
    "agents/engine/progress/feedback.py",
    "agents/loop/limits.py",
    "agents/loop/decision.py",
    "agents/loop/record/frame_factory.py",
    "agents/loop/errors.py",
    "agents/loop/explanation.py",
    "agents/loop/record/frames.py",
    "agents/loop/record/run.py",
    "agents/loop/store/ports.py",
    "agents/loop/store/rules.py",
    "agents/loop/tools.py",
    "agents/loop/record/transcript.py",
    "agents/engine/work/validation_errors.py",
    "agents/engine/progress/position.py",
    "agents/prompts/prompt.py",
    "agents/engine/work/questions.py",
    "agents/library/research/tree.py",
    "agents/library/research/conditions.py",
    "agents/report/journey_report.py",
    "agents/library/understand/course.py",
    "agents/library/understand/conditions.py",
    "agents/engine/work/form.py",
    "agents/engine/work/markdown.py",
    "agents/engine/events.py",
    "agents/records.py",
    "agents/engine/fold.py",
    "agents/loop/model/ports.py",
    "agents/loop/model/errors.py",
    "agents/loop/providers/access.py",
    "agents/loop/providers/anthropic/wire.py",
    "agents/loop/providers/failures.py",
    "agents/loop/providers/history.py",
    "agents/loop/providers/openai/chat_wire.py",
    "agents/loop/providers/openai/responses_wire.py",
    "agents/loop/providers/wire/reply_text.py",
    "agents/loop/providers/wire/strict_schema.py",
    "agents/loop/providers/usage.py",
    "agents/loop/providers/wire/request.py",
    "agents/engine/graph.py",
    "agents/engine/decide.py",
    "agents/engine/state.py",
    "agents/library/skills/assembly.py",
    "agents/library/skills/definition.py",
    "agents/library/skills/adapter.py",
    "agents/library/skills/skill.py",
    "agents/store/ports.py",
    "agents/store/codec.py",
    "agents/store/recent.py",
    "agents/store/export_file.py",
    "agents/spec/yaml/block.py",
    "agents/spec/predicates/combinators.py",
    "agents/spec/predicates/conditions.py",
    "agents/spec/definition.py",
    "agents/spec/yaml/field_path.py",
    "agents/spec/files.py",
    "agents/spec/schema/work_form.py",
    "agents/spec/predicates/grounds.py",
    "agents/spec/yaml/values.py",
    "agents/spec/schema/schema_errors.py",
    "agents/spec/graph/phases.py",
    "agents/spec/predicates/recorded_work.py",
    "agents/spec/predicates/knowledge_base.py",
    "agents/spec/predicates/leaf.py",
    "agents/spec/problems.py",
    "agents/spec/yaml/reader.py",
    "agents/spec/schema/json_schema.py",
    "agents/spec/description.py",
    "agents/spec/graph/transitions.py",
    "agents/report/sentences.py",
    "agents/report/overview.py",
    "mcp_server/presenters/typed_time.py",
    "mcp_server/cli/agents/view.py",
    "mcp_server/cli/journeys/view.py",
    "mcp_server/cli/review/card.py",
    "mcp_server/cli/review/view.py",
    "mcp_server/cli/terminal/escape.py",
    "mcp_server/connectors/request/bodies.py",
    "mcp_server/connectors/errors.py",
    "mcp_server/connectors/text/mentions.py",
    "mcp_server/connectors/text/dates.py",
    "mcp_server/connectors/text/name_match.py",
    "mcp_server/connectors/text/preview.py",
    "mcp_server/connectors/request/wire.py",
    "mcp_server/gate/policy.py",
    "mcp_server/toolsets/journeys/offers/sentences.py",
    "mcp_server/toolsets/plane/acts/model.py",
    "mcp_server/connectors/plane/text/edit.py",
    "mcp_server/connectors/plane/model.py",
    "mcp_server/connectors/plane/names.py",
    "mcp_server/toolsets/plane/acts/readback.py",
    "mcp_server/connectors/plane/pagination.py",
    "mcp_server/connectors/plane/wire.py",
    "mcp_server/connectors/plane/reply_check.py",
    "mcp_server/connectors/plane/text/html_tree.py",
    "mcp_server/connectors/plane/text/markdown.py",
    "mcp_server/connectors/plane/text/html_markdown.py",
    "mcp_server/toolsets/plane/queries.py",
    "mcp_server/connectors/zulip/text/links.py",
    "mcp_server/connectors/zulip/text/mentions.py",
    "mcp_server/toolsets/zulip/messages/model.py",
    "mcp_server/connectors/zulip/model.py",
    "mcp_server/approvals/zulip/notice_text.py",
    "mcp_server/connectors/zulip/text/place_names.py",
    "mcp_server/connectors/zulip/text/message_parts.py",
    "mcp_server/connectors/zulip/wire.py",
    "mcp_server/web/text/confusables.py",
    "mcp_server/web/proposals/page_changes.py",
    "mcp_server/presenters/diffs.py",
    "mcp_server/web/text/diffs.py",
    "mcp_server/web/graph/svg.py",
    "mcp_server/web/graph/parts.py",
    "mcp_server/web/graph/layout.py",
    "mcp_server/web/text/sanitize.py",
    "mcp_server/web/journeys/views.py",
    "mcp_server/web/text/values.py",
    "mcp_server/web/journeys/work_views.py",
    "knowledge/wire/lean_schema.py",
    "knowledge/wire/validation_errors.py",
    "mcp_server/app/settings/notes.py",
    "mcp_server/protocol/wire_errors.py",
    "mcp_server/app/settings/zuliprc.py",
    "mcp_server/app/settings/reference_pages.py",
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


@cache
def imported(path: Path) -> set[str]:
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        waiting.extend(blocks(node))
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


ROOMS = ("knowledge.state", "agents.store", "knowledge.index.engines", "agents.loop.providers")


def family(name: str) -> str:
    """Return the room that an adapter belongs to."""
    if name.startswith("knowledge.index.store."):
        return "knowledge.state"
    return next((room for room in ROOMS if name.startswith(f"{room}.")), name)


def test_imports_point_one_way() -> None:
    """The design, section 1: mcp_server -> agents -> knowledge."""
    wrong = {}
    for path in modules():
        package = name_of(path).partition(".")[0]
        ours = {name.partition(".")[0] for name in imported(path)} & set(MAY_IMPORT)
        if not ours <= MAY_IMPORT[package]:
            wrong[name_of(path)] = sorted(ours - MAY_IMPORT[package])
    assert wrong == {}


def test_only_the_composition_root_chooses_adapters() -> None:
    wrong = {}
    for path in modules():
        name = name_of(path)
        used = {adapter for adapter in imported(path) & ADAPTERS if family(adapter) != family(name)}
        if used and name not in COMPOSITION:
            wrong[name] = sorted(used)
    assert wrong == {}, "an adapter is chosen in mcp_server/app/composition.py only"


def test_pure_files_touch_no_clock_disk_or_network() -> None:
    outside = {path: {name.partition(".")[0] for name in imported(ROOT / path)} & IMPURE for path in PURE}
    assert {path: names for path, names in outside.items() if names} == {}


def test_only_the_starting_modules_import_the_composition_root() -> None:
    """A toolset, the gate, approvals and pages get their dependencies as named in `mcp_server/ports.py`.

    Settings are values.
    """
    inside = ("mcp_server.app", "mcp_server.cli", "mcp_server.__main__", "mcp_server.workers.index_steps")
    knowing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "mcp_server").rglob("*.py")
        if not name_of(path).startswith(inside)
        and any(
            one.startswith("mcp_server.app.") and not one.startswith("mcp_server.app.settings")
            for one in imported(path)
        )
    }
    assert not knowing


def test_only_the_edge_knows_mcp_exists() -> None:
    for path in modules():
        if name_of(path).partition(".")[0] != "mcp_server":
            assert not {name.partition(".")[0] for name in imported(path)} & {"mcp", "mcp_types"}, path


def test_only_settings_reads_the_environment() -> None:
    """Settings are one frozen object instead; hosts need the home directory, and take it as an argument."""
    for path in modules():
        if name_of(path) in ("mcp_server.app.settings.loader", "mcp_server.app.settings.environment"):
            continue
        text = path.read_text(encoding="utf-8")
        assert "os.environ" not in text, path
        assert "getenv" not in text, path
