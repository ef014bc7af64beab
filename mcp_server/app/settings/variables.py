"""All settings, in the order in which people read of them: name, meaning, default. The reference page is made from this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp_server.app.settings import values


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting as a person sees it: the row of the reference table."""

    name: str
    field: str
    parse: Callable[[str], object]
    says: str
    default: str

    @property
    def key(self) -> str:
        """Return its name in `forge.toml`: `FORGE_STATE_DIR` is `state_dir`."""
        return self.name.removeprefix("FORGE_").lower()


VARIABLES = (
    Variable(
        "FORGE_KB", "kb", values.path, "The folder of Markdown to serve.", "the handbook that comes with the program"
    ),
    Variable(
        "FORGE_STATE_DIR",
        "state_dir",
        values.path,
        "Where state and indexes of this knowledge base live; outside of it.",
        "the platform's state directory",
    ),
    Variable(
        "FORGE_HTTP",
        "http",
        values.http_address,
        "Serve Streamable HTTP on HOST:PORT (loopback) instead of stdio; `stdio` overrules an address in the file.",
        "stdio",
    ),
    Variable(
        "FORGE_TOOLSETS",
        "toolsets",
        values.toolsets,
        f"Comma-separated toolsets to list: {', '.join(values.TOOLSETS)}. `trust` is always listed.",
        "all that are configured",
    ),
    Variable("FORGE_READ_ONLY", "read_only", values.flag, "List only tools that read.", "false"),
    Variable(
        "FORGE_ENROLMENT",
        "enrolment",
        values.secret,
        "The secret that tells the server which host this is; `knowledge-forge enroll NAME` prints it.",
        "none: the host is not registered (`unenrolled`). A wrong one stops the start",
    ),
    Variable(
        "FORGE_DATABASE_URL",
        "database_url",
        values.database_url,
        "PostgreSQL that keeps the state instead of a file: `postgresql://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full`.",
        "none: `state.db` in the state directory",
    ),
    Variable(
        "FORGE_DATABASE_SCHEMA",
        "database_schema",
        values.schema,
        "Which schema of that database is this knowledge base's; name it where several machines serve the same one.",
        "`forge_`, the folder's name, a hash of its path",
    ),
    Variable(
        "FORGE_EMBEDDER",
        "embedder",
        values.embedder,
        "What turns text into vectors: `static`, `fastembed:MODEL` on this machine, or `endpoint:MODEL` at FORGE_EMBEDDER_URL.",
        "static",
    ),
    Variable(
        "FORGE_EMBEDDER_URL",
        "embedder_url",
        values.embedder_url,
        "Where an OpenAI-compatible endpoint is, for example `http://localhost:11434/v1`; `/embeddings` is added.",
        "none",
    ),
    Variable("FORGE_EMBEDDER_KEY", "embedder_key", values.key, "The key for that endpoint.", "none"),
    Variable(
        "FORGE_EMBEDDER_KEY_FILE",
        "embedder_key_file",
        values.path,
        "A file that holds the key, instead of the key itself.",
        "none",
    ),
    Variable(
        "FORGE_EMBEDDER_DIMENSIONS",
        "embedder_dimensions",
        values.dimensions,
        "Ask the endpoint for vectors of this length, and accept no other.",
        "the model's own length",
    ),
    Variable(
        "FORGE_EMBEDDER_QUESTION_PREFIX",
        "embedder_question_prefix",
        str,
        "What the model wants before a question, blanks included: `query: ` for e5.",
        "nothing",
    ),
    Variable(
        "FORGE_EMBEDDER_PASSAGE_PREFIX",
        "embedder_passage_prefix",
        str,
        "What the model wants before a passage: `passage: ` for e5.",
        "nothing",
    ),
    Variable(
        "FORGE_EMBEDDER_ENCODING",
        "embedder_encoding",
        values.encoding,
        "How the endpoint is asked to send numbers: `float` or, a third of the bytes where it is supported, `base64`.",
        "float",
    ),
    Variable(
        "FORGE_MEILI_URL",
        "meili_url",
        values.meili_url,
        "A Meilisearch server (tested: 1.50) that searches words, for example `http://localhost:7700`; "
        "needs the extra `meilisearch`.",
        "none: words are searched in this process",
    ),
    Variable(
        "FORGE_MEILI_KEY",
        "meili_key",
        values.key,
        "A key for that server, which may search, and manage indexes, documents, settings and tasks.",
        "none",
    ),
    Variable(
        "FORGE_MEILI_CA",
        "meili_ca",
        values.path,
        "A file of certificates (PEM) to trust for that server, instead of the usual ones.",
        "the usual ones",
    ),
    Variable(
        "FORGE_QDRANT_URL",
        "qdrant_url",
        values.qdrant_url,
        "Where a Qdrant server is that is to search by vectors, and by words where there is no Meilisearch; "
        "needs the extra `qdrant`.",
        "none: embedded engines",
    ),
    Variable("FORGE_QDRANT_KEY", "qdrant_key", values.key, "The key for that server.", "none"),
    Variable(
        "FORGE_QDRANT_GRPC_PORT",
        "qdrant_grpc_port",
        values.port,
        "Speak gRPC with it, at this port, usually 6334.",
        "REST",
    ),
    Variable("FORGE_QDRANT_SHARDS", "qdrant_shards", values.copies, "Into how many shards a collection is cut.", "1"),
    Variable("FORGE_QDRANT_REPLICAS", "qdrant_replicas", values.copies, "How many copies of each shard are kept.", "1"),
    Variable(
        "FORGE_QDRANT_WRITE_CONSISTENCY",
        "qdrant_write_consistency",
        values.copies,
        "How many of those copies must have a write before it counts.",
        "1",
    ),
    Variable(
        "FORGE_QDRANT_ON_DISK", "qdrant_on_disk", values.flag, "Leave vectors on disk; less memory, slower.", "false"
    ),
    Variable(
        "FORGE_QDRANT_QUANTIZATION",
        "qdrant_quantization",
        values.quantization,
        "Keep small copies of vectors in memory for the first look: `none`, `scalar` (a byte), `binary` (a bit).",
        "none",
    ),
    Variable(
        "PLANE_BASE_URL",
        "plane_base_url",
        values.plane_url,
        "Where Plane is, for example `https://api.plane.so`; with key and workspace it lists the toolset `plane`.",
        "none: no Plane",
    ),
    Variable("PLANE_API_KEY", "plane_api_key", values.key, "A personal access token of Plane.", "none"),
    Variable(
        "PLANE_WORKSPACE", "plane_workspace", values.workspace, "The workspace: the word behind the host.", "none"
    ),
    Variable(
        "PLANE_PROJECTS",
        "plane_projects",
        values.names,
        "The only projects that may be used, comma-separated, by identifier or name.",
        "all that the key sees",
    ),
    Variable("PLANE_READ_ONLY", "plane_read_only", values.flag, "List only the tools that read Plane.", "false"),
    Variable(
        "PLANE_CA",
        "plane_ca",
        values.path,
        "A file of certificates (PEM) to trust for Plane, instead of the usual ones.",
        "the usual ones",
    ),
    Variable(
        "ZULIP_CONFIG",
        "zulip_config",
        values.path,
        "A `zuliprc` that holds site, address and key, instead of the three below.",
        "none",
    ),
    Variable(
        "ZULIP_SITE",
        "zulip_site",
        values.zulip_site,
        "Where Zulip is, for example `https://chat.example.com`; with address and key it lists the toolset `zulip`.",
        "none: no Zulip",
    ),
    Variable("ZULIP_EMAIL", "zulip_email", values.email, "The address of the bot (or person) whose key it is.", "none"),
    Variable("ZULIP_API_KEY", "zulip_api_key", values.key, "Its API key.", "none"),
    Variable(
        "ZULIP_CHANNELS",
        "zulip_channels",
        values.names,
        "The only channels that may be used, comma-separated; `direct` stands for direct messages.",
        "all that the bot sees, and direct messages",
    ),
    Variable("ZULIP_READ_ONLY", "zulip_read_only", values.flag, "List only the tools that read Zulip.", "false"),
    Variable(
        "ZULIP_CERT_BUNDLE",
        "zulip_cert_bundle",
        values.path,
        "A file of certificates (PEM) to trust for Zulip, instead of the usual ones.",
        "the usual ones",
    ),
    Variable(
        "ZULIP_REVIEWS",
        "zulip_reviews",
        values.channel_and_topic,
        "CHANNEL/TOPIC that hears of each proposal that waits, with a link to it.",
        "none: nobody is told there",
    ),
    Variable(
        "ZULIP_REVIEWERS",
        "zulip_reviewers",
        values.emails,
        "Addresses, comma-separated, of people whose reaction to such a message approves or rejects, up to level 3.",
        "none: a reaction decides nothing",
    ),
    Variable(
        "FORGE_MODEL",
        "model",
        values.model_name,
        "The language model that runs ask, as `VENDOR:MODEL`; vendors: `anthropic`, `openai` (also local servers), "
        "`openai-responses`. It lists the toolset `runs`.",
        "none: no model is ever asked",
    ),
    Variable("ANTHROPIC_API_KEY", "anthropic_api_key", values.key, "The key for Anthropic's models.", "none"),
    Variable(
        "ANTHROPIC_BASE_URL", "anthropic_base_url", values.anthropic_url, "Where they are asked.", "the vendor's own"
    ),
    Variable(
        "OPENAI_API_KEY", "openai_api_key", values.key, "The key for OpenAI's models, or a server like it.", "none"
    ),
    Variable(
        "OPENAI_BASE_URL",
        "openai_base_url",
        values.openai_url,
        "Where they are asked, for example `http://localhost:11434/v1` for a server of one's own.",
        "the vendor's own",
    ),
    Variable(
        "FORGE_MODEL_KEY_FILE",
        "model_key_file",
        values.path,
        "A file that holds the model's key; it goes before the vendor's variable, which other programs use, too.",
        "none",
    ),
    Variable(
        "FORGE_MODEL_PRICES",
        "model_prices",
        values.prices,
        "What a million tokens cost, in your currency, comma-separated: `PATTERN=IN/OUT[/CACHED[/WRITTEN]]`, for example "
        "`some-model-*=3/15/0.30/3.75`; the first that fits the model counts.",
        "none: costs are not known",
    ),
    Variable(
        "FORGE_RUN_TOKENS",
        "run_tokens",
        values.run_tokens,
        "At most so many tokens, in and out together, in one run.",
        "200000",
    ),
    Variable(
        "FORGE_RUN_ANSWER_TOKENS",
        "run_answer_tokens",
        values.window_tokens,
        "The longest single answer of the model in a run; what it thinks before it answers counts.",
        "8192",
    ),
    Variable(
        "FORGE_RUN_CONTEXT_TOKENS",
        "run_context_tokens",
        values.window_tokens,
        "At most so many tokens (characters / 4) of a run are told to the model at once; the oldest output goes first.",
        "24000",
    ),
    Variable(
        "FORGE_RUN_COST",
        "run_cost",
        values.money,
        "At most so much money for one run, in the currency of the prices, which it needs.",
        "no bound",
    ),
    Variable(
        "FORGE_RUN_DAY_TOKENS",
        "run_day_tokens",
        values.day_tokens,
        "At most so many tokens, in and out together, in any 24 hours in all runs of the knowledge base, whichever host and "
        "process they are of.",
        "no bound",
    ),
    Variable(
        "FORGE_RUN_DAY_COST",
        "run_day_cost",
        values.money,
        "At most so much money in any 24 hours for all of them, in the currency of the prices, which it needs.",
        "no bound",
    ),
    Variable(
        "FORGE_MODEL_HELPS",
        "model_helps",
        values.helps,
        "What the model helps with beside runs, comma-separated: `routes`, `contradictions`, `summaries`. Questions and pages are "
        "sent to it then.",
        "nothing",
    ),
    Variable(
        "FORGE_ANSWER_TOKENS",
        "answer_tokens",
        values.answer_tokens,
        "At most so many tokens (characters / 4) of snippets in a search answer.",
        "1500",
    ),
    Variable(
        "FORGE_QUOTA_PENDING",
        "quota_pending",
        values.size,
        "How much of one principal's proposals may wait for a person at a time, for example `50 MB`.",
        "50 MB",
    ),
    Variable(
        "FORGE_QUOTA_PROPOSED",
        "quota_proposed",
        values.size,
        "How much one principal may propose in any 24 hours, whatever becomes of it.",
        "200 MB",
    ),
    Variable(
        "FORGE_QUOTA_STARTS",
        "quota_starts",
        values.starts,
        "How many journeys and runs one principal may start in any minute.",
        "60",
    ),
    Variable(
        "FORGE_QUOTA_JOURNEYS",
        "quota_journeys",
        values.size,
        "How much one principal may store in journeys in any 24 hours.",
        "100 MB",
    ),
    Variable(
        "FORGE_QUOTA_RUNS",
        "quota_runs",
        values.size,
        "How much one principal may store in runs of `agent_run` in any 24 hours.",
        "100 MB",
    ),
    Variable(
        "FORGE_RETENTION",
        "retention",
        values.retention,
        "How long the texts of proposals, journeys and runs are kept whole after they ended, in days such as `90d`, or `forever`. "
        "Hashes, decisions, the audit chain and revisions of pages always stay.",
        "90d",
    ),
    Variable(
        "FORGE_OPEN_BROWSER",
        "open_browser",
        values.flag,
        "Open the review page in a browser when something waits for a person and there is a display.",
        "true",
    ),
    Variable(
        "FORGE_TRUSTED_PLACES",
        "trusted_places",
        values.trusted_places,
        "Comma-separated places whose text you vouch for, such as `plane:KB,zulip:design`: a host that has read it acts as before.",
        "none; `knowledge-forge trust places` adds and lists others",
    ),
)

BY_FIELD = {variable.field: variable for variable in VARIABLES}
