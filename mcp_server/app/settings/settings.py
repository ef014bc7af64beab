"""The settings: one frozen object that declares each setting once, with its variable, reader and documentation.

The reference page is made from these declarations. `loader` fills the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from knowledge.state.quota.bounds import Quotas
from mcp_server.app.settings import sign_in, values
from mcp_server.app.settings.access import HttpAccess, ModelAccess
from mcp_server.app.settings.editor_link import EDITORS, EditorLink, editor_link
from mcp_server.app.settings.services import (
    SERVICE_VARIABLES,
    TOOLSETS,
    PlaneAccess,
    ServiceAccess,
    WebhookAccess,
    WebhookTarget,
    ZulipAccess,
)
from mcp_server.app.settings.sign_in import Issuer, RequiredClaim, ScopeReach, SiteAccess, SiteClient
from mcp_server.app.settings.values import UNSET, HttpAddress, LanguageModelName, ModelPrice
from mcp_server.fair_use.limits import FOR_A_TEAM, CallLimits


def setting(
    variable: str,
    read: Callable[[str], object],
    says: str,
    *,
    default: Any = None,
    shown: str | None = None,
    secret: bool = False,
) -> Any:
    """Declare a setting: `read` turns the text of its variable into its value, `shown` is the default as people read it.

    The value of a `secret` stays out of `repr` and so out of logs.
    """
    if shown is None:
        shown = "none" if default is None else str(default).lower()
    return field(default=default, repr=not secret, metadata={"setting": (variable, read, says, shown)})


_QUOTAS = Quotas()
FOLDER, DATABASE = "folder", "database"
"""Where pages may be (FORGE_PAGES)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be chosen from outside. Paths are absolute."""

    kb: Path = setting(
        "FORGE_KB",
        values.path,
        "The folder of Markdown to serve.",
        default=MISSING,
        shown="the handbook that ships with the program",
    )
    state_dir: Path | None = setting(
        "FORGE_STATE_DIR",
        values.path,
        "The folder for this knowledge base's state and indexes. It must lie outside the knowledge base.",
        shown="the platform's state directory",
    )
    http: HttpAddress | None = setting(
        "FORGE_HTTP",
        values.http_address,
        (
            "Serve Streamable HTTP on HOST:PORT instead of stdio. An address that other machines can reach needs FORGE_HTTP_URL. "
            "`stdio` overrides an address in the file."
        ),
        shown="stdio",
    )
    http_workers: int = setting(
        "FORGE_HTTP_WORKERS",
        values.integer(1, 64),
        (
            "The number of processes that serve HTTP on one port ([guide](../guides/serve-a-team.md#several-processes-and-machines)). "
            "A process that ends is replaced."
        ),
        default=1,
    )
    http_url: str | None = setting(
        "FORGE_HTTP_URL",
        values.http_url,
        (
            "The address at which clients reach the server, for example `https://forge.example.com/mcp`. With it every request needs "
            "a token ([guide](../guides/serve-a-team.md))."
        ),
        shown="none: this machine only, and requests without a token may read and propose",
    )
    http_hosts: tuple[str, ...] = setting(
        "FORGE_HTTP_HOSTS",
        values.host_names,
        "Comma-separated further hosts that a request's `Host` may name, such as `forge.internal:8321`; `:*` for any port.",
        default=(),
        shown="that of FORGE_HTTP_URL, and the names of loopback",
    )
    http_origins: tuple[str, ...] = setting(
        "FORGE_HTTP_ORIGINS",
        values.origins,
        "Comma-separated further origins of web pages that may call the server, such as `https://app.example.com`.",
        default=(),
        shown="that of FORGE_HTTP_URL; without it, those of loopback",
    )
    oauth_issuers: tuple[Issuer, ...] = setting(
        "FORGE_OAUTH_ISSUERS",
        sign_in.issuers,
        (
            "Comma-separated sign-in servers whose access tokens count, as `NAME=ISSUER`, for example "
            "`corp=https://login.example.com/realms/corp` ([guide](../guides/serve-a-team.md#a-sign-in-server)). "
            "They need FORGE_HTTP_URL."
        ),
        default=(),
        shown="none: only tokens of `knowledge-forge token create`, and secrets of registered hosts",
    )
    oauth_scopes: tuple[ScopeReach, ...] = setting(
        "FORGE_OAUTH_SCOPES",
        sign_in.scopes,
        (
            "What the scopes of access tokens allow, comma-separated: `SCOPE=LEVEL`, or `SCOPE=LEVEL/TOOLSET+TOOLSET` for those "
            "toolsets alone. A scope that is not named allows nothing."
        ),
        default=sign_in.FIRST_SCOPES,
        shown="`forge:read=1,forge:propose=2,forge:edit=3,forge:act=4`",
    )
    knowledge_bases: tuple[tuple[str, Path], ...] = setting(
        "FORGE_KNOWLEDGE_BASES",
        values.named_files,
        (
            "Serve several knowledge bases over HTTP, comma-separated: `NAME=FILE`, such as `team=/etc/forge/team.toml`. Each file "
            "has the settings of one, whose address is `/kb/NAME/mcp` ([guide](../guides/several-knowledge-bases.md))."
        ),
        default=(),
        shown="one knowledge base, FORGE_KB",
    )
    tls_certificate: Path | None = setting(
        "FORGE_TLS_CERTIFICATE",
        values.path,
        "A file with the server's certificate and its chain (PEM). With FORGE_TLS_KEY the server speaks TLS itself.",
        shown="none: a proxy in front does TLS, or only this machine calls",
    )
    tls_key: Path | None = setting(
        "FORGE_TLS_KEY", values.path, "The file with the private key of that certificate (PEM, without a passphrase)."
    )
    toolsets: tuple[str, ...] | None = setting(
        "FORGE_TOOLSETS",
        values.toolsets,
        f"Comma-separated toolsets to list: {', '.join(TOOLSETS)}. `trust` is always listed.",
        shown="all that are configured",
    )
    prevent_self_review: bool = setting(
        "FORGE_PREVENT_SELF_REVIEW",
        values.flag,
        (
            "Leave proposals of a person's own hosts, and approvals of their journeys, to others, except at a terminal of the "
            "server's account ([guide](../guides/serve-a-team.md#who-decides))."
        ),
        default=False,
    )
    read_only: bool = setting("FORGE_READ_ONLY", values.flag, "List only tools that read.", default=False)
    enrolment: str | None = setting(
        "FORGE_ENROLMENT",
        values.secret,
        "The secret that tells the server which host this is; `knowledge-forge enroll NAME` prints it.",
        shown="none: the host is not registered (`unenrolled`). With a wrong secret the server does not start",
        secret=True,
    )
    database_url: str | None = setting(
        "FORGE_DATABASE_URL",
        values.database_url,
        (
            "A PostgreSQL database for the state, instead of a file: "
            "`postgresql://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full`."
        ),
        shown="none: `state.db` in the state directory",
        secret=True,
    )
    database_schema: str | None = setting(
        "FORGE_DATABASE_SCHEMA",
        values.schema,
        "The schema of this knowledge base in that database. Set it if several machines serve the same knowledge base.",
        shown="`forge_`, the folder's name, a hash of its path",
    )
    pages: str = setting(
        "FORGE_PAGES",
        values.one_of(FOLDER, DATABASE),
        (
            "Where pages and attachments are: `folder`, in FORGE_KB, or `database`, in FORGE_DATABASE_URL. Then FORGE_KB is this "
            "machine's copy of them ([guide](../guides/pages-in-postgresql.md))."
        ),
        default=FOLDER,
    )
    embedder: str = setting(
        "FORGE_EMBEDDER",
        values.embedder,
        (
            "The embedder, which turns text into vectors: `static`, `onnx:PATH` (a model's folder) or `fastembed:MODEL` on "
            "this machine, or "
            "`endpoint:MODEL` at FORGE_EMBEDDER_URL. `knowledge-forge embedder use` sets it."
        ),
        default="static",
    )
    embedder_url: str | None = setting(
        "FORGE_EMBEDDER_URL",
        values.embedder_url,
        "The address of an OpenAI-compatible endpoint, for example `http://localhost:11434/v1`; `/embeddings` is added.",
        secret=True,
    )
    embedder_key: str | None = setting("FORGE_EMBEDDER_KEY", values.key, "The key for that endpoint.", secret=True)
    embedder_key_file: Path | None = setting(
        "FORGE_EMBEDDER_KEY_FILE", values.path, "A file that holds the key, instead of the key itself."
    )
    embedder_dimensions: int | None = setting(
        "FORGE_EMBEDDER_DIMENSIONS",
        values.dimensions,
        "Ask the endpoint for vectors of this length, and accept no other.",
        shown="the model's own length",
    )
    embedder_question_prefix: str = setting(
        "FORGE_EMBEDDER_QUESTION_PREFIX",
        str,
        "The text that the model expects before a question, spaces included: `query: ` for e5.",
        default="",
        shown="nothing",
    )
    embedder_passage_prefix: str = setting(
        "FORGE_EMBEDDER_PASSAGE_PREFIX",
        str,
        "The text that the model expects before a passage: `passage: ` for e5.",
        default="",
        shown="nothing",
    )
    embedder_multilingual: bool | None = setting(
        "FORGE_EMBEDDER_MULTILINGUAL",
        values.flag,
        "Whether the model matches a question with texts in other languages. Set it if the model's files and name don't say.",
        shown="what the model's files, fastembed's list or a known name say, otherwise false",
    )
    embedder_threads: int | None = setting(
        "FORGE_EMBEDDER_THREADS",
        values.threads,
        "Threads that embed passages with `onnx` or `fastembed`. On Linux they run at a lower priority than other programs.",
        shown="all cores on Linux, half of them elsewhere",
    )
    embedder_encoding: str = setting(
        "FORGE_EMBEDDER_ENCODING",
        values.encoding,
        (
            "How the endpoint sends numbers: `float`, or `base64`, which takes a third of the bytes if the endpoint "
            "supports it."
        ),
        default="float",
    )
    reranker: str | None = setting(
        "FORGE_RERANKER",
        values.reranker,
        (
            "A cross-encoder that puts the first 30 passages in order: `onnx:PATH`, `fastembed:MODEL`, or `endpoint:MODEL` at "
            "FORGE_RERANKER_URL. `knowledge-forge reranker use` sets it."
        ),
        shown="off",
    )
    reranker_url: str | None = setting(
        "FORGE_RERANKER_URL",
        values.reranker_url,
        "The address of a rerank endpoint, as of Cohere, Jina or text-embeddings-inference; `/rerank` is added.",
        secret=True,
    )
    reranker_key: str | None = setting("FORGE_RERANKER_KEY", values.key, "The key for that endpoint.", secret=True)
    reranker_key_file: Path | None = setting(
        "FORGE_RERANKER_KEY_FILE", values.path, "A file that holds the key, instead of the key itself."
    )
    reranker_ms: int = setting(
        "FORGE_RERANKER_MS",
        values.milliseconds,
        "Milliseconds that a search waits for the reranker. After that it answers without reranking, and a note says so.",
        default=2_000,
    )
    meili_url: str | None = setting(
        "FORGE_MEILI_URL",
        values.meili_url,
        (
            "A Meilisearch server (tested: 1.50) for keyword search, for example `http://localhost:7700`; needs the "
            "extra `meilisearch`."
        ),
        shown="none: the embedded engine",
    )
    meili_key: str | None = setting(
        "FORGE_MEILI_KEY",
        values.key,
        "A key for that server that may search and manage indexes, documents, settings and tasks.",
        secret=True,
    )
    meili_ca: Path | None = setting(
        "FORGE_MEILI_CA",
        values.path,
        "A file of certificates (PEM) to trust for that server, instead of the usual ones.",
        shown="the usual ones",
    )
    qdrant_url: str | None = setting(
        "FORGE_QDRANT_URL",
        values.qdrant_url,
        "A Qdrant server for vector search; needs the extra `qdrant`.",
        shown="none: embedded engines",
    )
    qdrant_key: str | None = setting("FORGE_QDRANT_KEY", values.key, "The key for that server.", secret=True)
    qdrant_grpc_port: int | None = setting(
        "FORGE_QDRANT_GRPC_PORT", values.port, "Use gRPC at this port, usually 6334.", shown="REST"
    )
    qdrant_shards: int = setting(
        "FORGE_QDRANT_SHARDS", values.copies, "The number of shards of a collection.", default=1
    )
    qdrant_replicas: int = setting(
        "FORGE_QDRANT_REPLICAS", values.copies, "The number of copies of each shard.", default=1
    )
    qdrant_write_consistency: int = setting(
        "FORGE_QDRANT_WRITE_CONSISTENCY",
        values.copies,
        "The number of copies that must confirm a write.",
        default=1,
    )
    qdrant_on_disk: bool = setting(
        "FORGE_QDRANT_ON_DISK", values.flag, "Leave vectors on disk: less memory, slower.", default=False
    )
    qdrant_quantization: Literal["none", "scalar", "binary"] = setting(
        "FORGE_QDRANT_QUANTIZATION",
        values.quantization,
        (
            "Keep small copies of vectors in memory for a first, rough search: `none`, `scalar` (a byte a number) or "
            "`binary` (a bit)."
        ),
        default="none",
    )
    plane_base_url: str | None = setting(
        "PLANE_BASE_URL",
        values.plane_url,
        (
            "The address of Plane, for example `https://api.plane.so`. With a key and a workspace, the toolset "
            "`plane` is listed."
        ),
        shown="none: no Plane",
    )
    plane_api_key: str | None = setting("PLANE_API_KEY", values.key, "A personal access token of Plane.", secret=True)
    plane_workspace: str | None = setting(
        "PLANE_WORKSPACE", values.workspace, "The workspace: the word after the host in Plane's addresses."
    )
    plane_projects: tuple[str, ...] | None = setting(
        "PLANE_PROJECTS",
        values.names,
        "The only projects that may be used, comma-separated, by identifier or name.",
        shown="everything that the key can see",
    )
    plane_read_only: bool = setting(
        "PLANE_READ_ONLY", values.flag, "List only the tools that read Plane.", default=False
    )
    plane_ca: Path | None = setting(
        "PLANE_CA",
        values.path,
        "A file of certificates (PEM) to trust for Plane, instead of the usual ones.",
        shown="the usual ones",
    )
    zulip_config: Path | None = setting(
        "ZULIP_CONFIG", values.path, "A `zuliprc` file with site, email and key, instead of the next three settings."
    )
    zulip_site: str | None = setting(
        "ZULIP_SITE",
        values.zulip_site,
        (
            "The address of Zulip, for example `https://chat.example.com`. With an email and a key, the toolset "
            "`zulip` is listed."
        ),
        shown="none: no Zulip",
    )
    zulip_email: str | None = setting(
        "ZULIP_EMAIL", values.email, "The email address of the bot (or person) that the key belongs to."
    )
    zulip_api_key: str | None = setting("ZULIP_API_KEY", values.key, "The API key.", secret=True)
    zulip_channels: tuple[str, ...] | None = setting(
        "ZULIP_CHANNELS",
        values.names,
        "The only channels that may be used, comma-separated; `direct` is direct messages.",
        shown="everything that the bot can see, and direct messages",
    )
    zulip_read_only: bool = setting(
        "ZULIP_READ_ONLY", values.flag, "List only the tools that read Zulip.", default=False
    )
    zulip_cert_bundle: Path | None = setting(
        "ZULIP_CERT_BUNDLE",
        values.path,
        "A file of certificates (PEM) to trust for Zulip, instead of the usual ones.",
        shown="the usual ones",
    )
    zulip_reviews: tuple[str, str] | None = setting(
        "ZULIP_REVIEWS",
        values.channel_and_topic,
        "The CHANNEL/TOPIC in which each pending proposal is announced with a link.",
        shown="none: proposals are not announced in Zulip",
    )
    zulip_reviewers: tuple[str, ...] = setting(
        "ZULIP_REVIEWERS",
        values.reviewers,
        (
            "Comma-separated email addresses, user ids or names (`Ann`, `Ann|28`) of the people whose reaction to such a "
            "message rejects, or approves up to level 3. They also answer the questions that journeys ask in a topic (`ask_in`)."
        ),
        default=(),
        shown="none: reactions decide nothing",
    )
    webhooks: tuple[WebhookTarget, ...] = setting(
        "FORGE_WEBHOOKS",
        values.webhooks,
        (
            "Receivers of webhooks, comma-separated: `NAME=URL SECRET`, for example `releases=https://hooks.example.com/forge "
            "whsec_...`. With it, the toolset `webhook` is listed."
        ),
        default=(),
        shown="none: no webhooks",
        secret=True,
    )
    webhook_ca: Path | None = setting(
        "FORGE_WEBHOOK_CA",
        values.path,
        "A file of certificates (PEM) to trust for these receivers, instead of the usual ones.",
        shown="the usual ones",
    )
    model: LanguageModelName | None = setting(
        "FORGE_MODEL",
        values.model_name,
        (
            "The language model for runs, as `VENDOR:MODEL`; vendors: `anthropic`, `openai` (also local servers), "
            "`openai-responses`. With it, the toolset `runs` is listed."
        ),
        shown="none: no model is used",
    )
    anthropic_api_key: str | None = setting(
        "ANTHROPIC_API_KEY", values.key, "The key for Anthropic's models.", secret=True
    )
    anthropic_base_url: str | None = setting(
        "ANTHROPIC_BASE_URL", values.anthropic_url, "Another address for Anthropic's API.", shown="the vendor's own"
    )
    openai_api_key: str | None = setting(
        "OPENAI_API_KEY", values.key, "The key for OpenAI's models, or for a compatible server.", secret=True
    )
    openai_base_url: str | None = setting(
        "OPENAI_BASE_URL",
        values.openai_url,
        "Another address for OpenAI's API, for example `http://localhost:11434/v1` for your own server.",
        shown="the vendor's own",
        secret=True,
    )
    model_key_file: Path | None = setting(
        "FORGE_MODEL_KEY_FILE",
        values.path,
        (
            "A file that holds the model's key. It takes precedence over the vendor's variable, which other programs "
            "use, too."
        ),
    )
    model_key: str | None = field(default=None, repr=False)
    """The content of `model_key_file`."""
    model_prices: tuple[ModelPrice, ...] = setting(
        "FORGE_MODEL_PRICES",
        values.prices,
        (
            "The price of a million tokens, in your currency, comma-separated: `PATTERN=IN/OUT[/CACHED[/WRITTEN]]`, for "
            "example `some-model-*=3/15/0.30/3.75`. The first pattern that fits the model counts."
        ),
        default=(),
        shown="none: costs are unknown",
    )
    run_tokens: int | None = setting(
        "FORGE_RUN_TOKENS",
        values.run_tokens,
        "The most tokens, in and out together, in one run.",
        default=200_000,
        shown="200000",
    )
    run_answer_tokens: int = setting(
        "FORGE_RUN_ANSWER_TOKENS",
        values.window_tokens,
        "The most tokens in one answer of the model in a run, including its thinking.",
        default=8_192,
        shown="8192",
    )
    run_context_tokens: int = setting(
        "FORGE_RUN_CONTEXT_TOKENS",
        values.window_tokens,
        (
            "The most tokens (characters / 4) of a run that are sent to the model at once; the oldest output is "
            "dropped first."
        ),
        default=24_000,
        shown="24000",
    )
    run_cost: Decimal | None = setting(
        "FORGE_RUN_COST",
        values.money,
        "The most money for one run, in the currency of FORGE_MODEL_PRICES, which must be set.",
        shown="no limit",
    )
    run_day_tokens: int | None = setting(
        "FORGE_RUN_DAY_TOKENS",
        values.day_tokens,
        (
            "The most tokens, in and out together, in any 24 hours in all runs of the knowledge base, across hosts "
            "and processes."
        ),
        shown="no limit",
    )
    run_day_cost: Decimal | None = setting(
        "FORGE_RUN_DAY_COST",
        values.money,
        "The most money in any 24 hours for all runs, in the currency of FORGE_MODEL_PRICES, which must be set.",
        shown="no limit",
    )
    model_helps: tuple[str, ...] = setting(
        "FORGE_MODEL_HELPS",
        values.helps,
        (
            "Other tasks that the model helps with, comma-separated: `routes`, `contradictions`, `summaries`, `substance`. "
            "Questions, pages and the work of journeys are then sent to it."
        ),
        default=(),
        shown="nothing",
    )
    answer_tokens: int = setting(
        "FORGE_ANSWER_TOKENS",
        values.answer_tokens,
        "The most tokens (characters / 4) of snippets in a search answer.",
        default=1500,
    )
    quota_pending: int = setting(
        "FORGE_QUOTA_PENDING",
        values.size,
        "The maximum size of one host's pending proposals, for example `50 MB`.",
        default=_QUOTAS.pending_bytes,
        shown="50 MB",
    )
    quota_proposed: int = setting(
        "FORGE_QUOTA_PROPOSED",
        values.size,
        "The most data that one host may propose in any 24 hours, including proposals that were already decided.",
        default=_QUOTAS.proposed_bytes,
        shown="200 MB",
    )
    quota_starts: int = setting(
        "FORGE_QUOTA_STARTS",
        values.starts,
        "The most journeys and runs that one host may start in any minute.",
        default=_QUOTAS.starts,
        shown="60",
    )
    quota_journeys: int = setting(
        "FORGE_QUOTA_JOURNEYS",
        values.size,
        "The most data that one host may store in journeys in any 24 hours.",
        default=_QUOTAS.journey_bytes,
        shown="100 MB",
    )
    quota_runs: int = setting(
        "FORGE_QUOTA_RUNS",
        values.size,
        "The most data that one host may store in runs of `agent_run` in any 24 hours.",
        default=_QUOTAS.run_bytes,
        shown="100 MB",
    )
    limit_calls: int | None = setting(
        "FORGE_LIMIT_CALLS",
        values.limit,
        "The most requests that one caller may make in any minute, or `off` ([guide](../guides/serve-a-team.md#fair-use)).",
        default=UNSET,
        shown=f"{FOR_A_TEAM.calls} with FORGE_HTTP_URL, otherwise off",
    )
    limit_heavy: int | None = setting(
        "FORGE_LIMIT_HEAVY",
        values.limit,
        "The most searches and changes of pages that one caller may make in any minute, or `off`.",
        default=UNSET,
        shown=f"{FOR_A_TEAM.heavy} with FORGE_HTTP_URL, otherwise off",
    )
    limit_at_once: int | None = setting(
        "FORGE_LIMIT_AT_ONCE",
        values.limit,
        "The most requests of one caller that each server process works on or keeps waiting at a time, or `off`.",
        default=UNSET,
        shown=f"{FOR_A_TEAM.at_once} with FORGE_HTTP_URL, otherwise off",
    )
    retention: timedelta | None = setting(
        "FORGE_RETENTION",
        values.retention,
        (
            "How long the full texts of proposals, journeys and runs are kept after they end, in days such as `90d`, "
            "or `forever`. Hashes, decisions, the audit chain and page revisions are always kept."
        ),
        default=timedelta(days=90),
        shown="90d",
    )
    """None keeps them forever."""
    questions_kept: timedelta | None = setting(
        "FORGE_QUESTIONS_KEPT",
        values.questions_kept,
        (
            "How long questions that hosts ask, and the pages used after them, are kept in the state folder for "
            "`knowledge-forge eval --from-use`, in days such as `90d`. `off` records none, and deletes those recorded before."
        ),
        default=timedelta(days=90),
        shown="90d",
    )
    """None records none."""
    open_browser: bool = setting(
        "FORGE_OPEN_BROWSER",
        values.flag,
        "Open the site in a browser when something needs approval and there is a display.",
        default=True,
    )
    public_url: str | None = setting(
        "FORGE_PUBLIC_URL",
        values.public_url,
        (
            "The address under which a proxy of yours, with TLS, serves the site to other machines: with a sign-in of its own, "
            "or with FORGE_SITE_CLIENT. Notices in Zulip link to it."
        ),
        shown="none: notices have no link, and the page answers on this machine only",
    )
    site_client: SiteClient | None = setting(
        "FORGE_SITE_CLIENT",
        sign_in.site_client,
        (
            "The site's client id at a sign-in server of FORGE_OAUTH_ISSUERS, as `NAME=CLIENT_ID`, for example `corp=forge-site`. "
            "With it people log in on the site at FORGE_PUBLIC_URL ([guide](../guides/serve-a-team.md#the-site-for-a-team))."
        ),
        shown="none: only the owner logs in, with links from the server's machine",
    )
    site_secret_file: Path | None = setting(
        "FORGE_SITE_SECRET_FILE",
        values.path,
        "A file with the secret of that client.",
        shown="none: the sign-in server knows it as a public client",
    )
    site_people: tuple[RequiredClaim, ...] = setting(
        "FORGE_SITE_PEOPLE",
        sign_in.required_claims,
        (
            "Comma-separated claims, as `CLAIM=VALUE`, of people who may log in there, read and review, for example "
            "`groups=reviewers`. One is enough."
        ),
        default=(),
        shown="only those of `knowledge-forge people`",
    )
    site_managers: tuple[RequiredClaim, ...] = setting(
        "FORGE_SITE_MANAGERS",
        sign_in.required_claims,
        "Claims of those who may log in and also manage trust and the state there, in the same form.",
        default=(),
        shown="only the owner",
    )
    editor_link: EditorLink | None = setting(
        "FORGE_EDITOR_LINK",
        editor_link,
        (
            "Shows a link on each page of the site, on this machine only, that opens its file in your editor: "
            f"{', '.join(f'`{name}`' for name in EDITORS)}, or a link of your own with `{{path}}` and `{{line}}`, such as "
            "`vscode-insiders://file{path}:{line}`."
        ),
        shown="off",
    )
    trusted_places: tuple[str, ...] = setting(
        "FORGE_TRUSTED_PLACES",
        values.trusted_places,
        (
            "Comma-separated places whose text you trust, such as `plane:KB,zulip:design`. Reading such text doesn't "
            "raise the level that a host's next acts need."
        ),
        default=(),
        shown="none; `knowledge-forge trust places` adds and lists others",
    )
    git: str = setting(
        "FORGE_GIT",
        values.one_of("off", "commit"),
        (
            "`commit` commits each change of pages in the Git repository that the knowledge base lies in "
            "([guide](../guides/git.md)); `off` leaves commits to you."
        ),
        default="off",
    )
    traces: str | None = setting(
        "FORGE_TRACES",
        values.traces_url,
        (
            "Send traces to this OpenTelemetry collector (OTLP over HTTP), for example `http://localhost:4318`. They hold names "
            "of tools and hosts, and no texts ([guide](../guides/monitoring.md))."
        ),
        shown="none: no traces",
    )
    metrics: HttpAddress | None = setting(
        "FORGE_METRICS",
        values.metrics_address,
        (
            "Serve metrics for Prometheus at HOST:PORT, for example `127.0.0.1:9464`. Another address than loopback needs "
            "FORGE_METRICS_TOKEN."
        ),
        shown="none: no metrics",
    )
    metrics_token: str | None = setting(
        "FORGE_METRICS_TOKEN",
        values.metrics_token,
        "The token that Prometheus sends (`authorization: credentials`), at least 16 characters.",
        secret=True,
    )
    log_format: str = setting(
        "FORGE_LOG_FORMAT",
        values.one_of("text", "json"),
        "How `serve` writes its log to stderr: `text`, or `json`, one object a line with the request's id.",
        default="text",
    )
    exclude: tuple[str, ...] = setting(
        "FORGE_EXCLUDE",
        values.names,
        (
            "Comma-separated folders and pages, with `*` for any characters, that are not your own, such as "
            "`templates,archive/*`. `doctor` doesn't check them, `check` compares them with nothing and `export` leaves them "
            "out, as with `exclude` in an `_index.md`. They stay in search and in the map."
        ),
        default=(),
        shown="none",
    )
    json: bool = False
    site_secret: str | None = field(default=None, repr=False)
    """The secret in `site_secret_file`."""
    file: Path | None = None
    """The `forge.toml` that was read."""
    file_place: Path | None = None
    """The path of that file, even if it does not exist: `knowledge-forge embedder use` writes it, and running servers notice."""
    in_environment: tuple[str, ...] = ()
    """The variables that were set in this environment; a host may start the server without them."""
    notes: tuple[str, ...] = ()
    """Remarks for the person, such as about variables that look like ours but aren't."""

    @property
    def quotas(self) -> Quotas:
        """Limits on what one principal may store, and how fast."""
        return Quotas(self.quota_pending, self.quota_proposed, self.quota_starts, self.quota_journeys, self.quota_runs)

    @property
    def call_limits(self) -> CallLimits:
        """The limits on the calls of one caller: those that are set, and for a team's server the usual ones."""
        usual = FOR_A_TEAM if self.http_url is not None else CallLimits()
        given = (self.limit_calls, self.limit_heavy, self.limit_at_once)
        chosen = [
            other if one == UNSET else one
            for one, other in zip(given, (usual.calls, usual.heavy, usual.at_once), strict=True)
        ]
        return CallLimits(*chosen)

    @property
    def http_access(self) -> HttpAccess:
        """Who may connect over HTTP, and how."""
        return HttpAccess(
            self.http_url,
            self.http_hosts,
            self.http_origins,
            self.tls_certificate,
            self.tls_key,
            self.oauth_issuers,
            self.oauth_scopes,
            self.call_limits.open,
        )

    @property
    def site_access(self) -> SiteAccess | None:
        """How people log in on the site with a sign-in server, and who may; None if only the owner may."""
        client, url = self.site_client, self.public_url
        issuer = next((one for one in self.oauth_issuers if client is not None and one.name == client.issuer), None)
        if client is None or url is None or issuer is None:
            return None
        return SiteAccess(
            sign_in.browser_origin(url),
            issuer,
            client.client_id,
            self.site_secret,
            self.site_people,
            self.site_managers,
        )

    @property
    def plane(self) -> PlaneAccess | None:
        """How to reach Plane; None if it is not configured completely."""
        if not (self.plane_base_url and self.plane_api_key and self.plane_workspace):
            return None
        return PlaneAccess(
            self.plane_base_url,
            self.plane_api_key,
            self.plane_workspace,
            projects=self.plane_projects,
            read_only=self.plane_read_only or self.read_only,
            ca=self.plane_ca,
        )

    @property
    def zulip(self) -> ZulipAccess | None:
        """How to reach Zulip; None if it is not configured completely."""
        if not (self.zulip_site and self.zulip_email and self.zulip_api_key):
            return None
        read_only = self.zulip_read_only or self.read_only
        return ZulipAccess(
            self.zulip_site,
            self.zulip_email,
            self.zulip_api_key,
            channels=self.zulip_channels,
            read_only=read_only,
            ca=self.zulip_cert_bundle,
            # Announcing a proposal is a write.
            reviews=None if read_only else self.zulip_reviews,
            reviewers=self.zulip_reviewers,
            review_page=self.public_url,
        )

    @property
    def webhook(self) -> WebhookAccess | None:
        """How to reach the receivers of webhooks; None if there are none."""
        return WebhookAccess(self.webhooks, self.read_only, self.webhook_ca) if self.webhooks else None

    @property
    def services(self) -> Mapping[str, ServiceAccess]:
        """How to reach the services that are configured completely, by toolset."""
        return {name: access for name in SERVICE_VARIABLES if (access := getattr(self, name)) is not None}

    @property
    def provider(self) -> ModelAccess | None:
        """How to reach the language model; None if it is not configured completely."""
        if self.model is None or missing_for_model({name: getattr(self, name) for name in _MODEL_FIELDS}):
            return None
        vendor = self.model.company.upper()
        key, address = {
            "ANTHROPIC": (self.anthropic_api_key, self.anthropic_base_url),
            "OPENAI": (self.openai_api_key, self.openai_base_url),
        }[vendor]
        return ModelAccess(
            self.model,
            self.model_key or key,
            address,
            key_setting="FORGE_MODEL_KEY_FILE" if self.model_key else f"{vendor}_API_KEY",
            address_setting=f"{vendor}_BASE_URL",
            prices=self.model_prices,
            run_tokens=self.run_tokens,
            run_answer_tokens=self.run_answer_tokens,
            run_context_tokens=self.run_context_tokens,
            run_cost=self.run_cost,
            run_day_tokens=self.run_day_tokens,
            run_day_cost=self.run_day_cost,
            helps=self.model_helps,
        )


_MODEL_FIELDS = ("model", "model_key", "anthropic_api_key", "openai_api_key", "openai_base_url")


def missing_for_model(given: Mapping[str, Any]) -> list[str]:
    """Return the variables that are missing for a language model, given the values of `_MODEL_FIELDS`."""
    model = given.get("model")
    if model is None:
        return ["FORGE_MODEL"]
    if given.get("model_key"):
        return []
    if model.company == "anthropic":
        return [] if given.get("anthropic_api_key") else ["ANTHROPIC_API_KEY"]
    # A server on one's own machine often takes no key.
    return [] if given.get("openai_api_key") or given.get("openai_base_url") else ["OPENAI_API_KEY"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A setting as people know it: a row of the reference table."""

    name: str
    field: str
    read: Callable[[str], object]
    says: str
    default: str

    @property
    def key(self) -> str:
        """Its name in `forge.toml`: `FORGE_STATE_DIR` is `state_dir`."""
        return self.name.removeprefix("FORGE_").lower()


def _declared(name: str, declaration: tuple[str, Callable[[str], object], str, str]) -> Variable:
    variable, read, says, default = declaration
    return Variable(variable, name, read, says, default)


VARIABLES = tuple(_declared(f.name, f.metadata["setting"]) for f in fields(Settings) if "setting" in f.metadata)
"""All settings, in the order of the reference page."""
BY_FIELD = {variable.field: variable for variable in VARIABLES}


def handbook() -> Path:
    """Return the knowledge base that ships with the program: `kb/` in a checkout, its copy in an installed wheel."""
    package = Path(__file__).resolve().parents[2]
    packaged = package / "handbook"
    return packaged if packaged.is_dir() else package.parent / "kb"
