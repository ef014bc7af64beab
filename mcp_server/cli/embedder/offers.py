"""The embedders that a person can choose, each with its size, licence and languages, before anything is loaded or fetched."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowledge.index.embed.identity import NO_PREFIXES, Prefixes, finds_across, known_multilingual, languages_in
from knowledge.index.embed.onnx.model_files import ModelFiles, UnusableModel, family_of, find_model
from knowledge.wire.addresses import shown_address
from mcp_server.cli.terminal.options import WronglyAsked

STATIC_NAME = "static"
STATIC_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class EmbedderOffer:
    """An embedder as a person names it (`name`) and as the setting does (`setting`). Unknown values are empty or 0."""

    name: str
    setting: str
    size_bytes: int = 0
    licence: str = ""
    languages: str = ""
    multilingual: bool | None = None
    """Whether it matches a question with texts in other languages; None if unknown."""
    dimensions: int = 0
    max_tokens: int = 0
    prefixes: Prefixes = NO_PREFIXES
    """The prefixes that the model expects and that its own files do not add."""
    notes: tuple[str, ...] = ()
    to_download: bool = False
    sends_to: str = ""
    """The address that gets every passage and every question."""


STATIC = EmbedderOffer(
    STATIC_NAME,
    STATIC_NAME,
    size_bytes=STATIC_BYTES,
    licence="mit",
    languages="English; other languages weakly",
    multilingual=False,
    dimensions=256,
    notes=("ships with the program",),
)


def local_offer(path: Path) -> EmbedderOffer:
    """Return the offer of a model's folder or `.onnx` file.

    Raises:
        WronglyAsked: there is no model that can be used.
    """
    try:
        files = find_model(path)
    except UnusableModel as error:
        raise WronglyAsked(f"{path} is not a model that can be used: {error}") from error
    except OSError as error:
        raise WronglyAsked(f"{path} cannot be read: {error.strerror}") from error
    return EmbedderOffer(
        name=str(path),
        setting=f"onnx:{path}",
        size_bytes=files.size_bytes,
        licence=files.licence,
        languages=", ".join(files.languages),
        multilingual=files.multilingual or (False if files.languages else None),
        dimensions=files.dimensions,
        max_tokens=files.max_tokens,
        notes=tuple(_notes_on(files)),
    )


def _notes_on(files: ModelFiles) -> Iterator[str]:
    yield f"weights: {files.weights.name}"
    yield f"pooling: {files.pooling}{' (assumed; its files do not say)' if 'pooling' in files.assumed else ''}"
    if files.prefixes != NO_PREFIXES:
        known = " (known of this family; its files do not say)" if "prefixes" in files.assumed else ""
        yield f"prefixes: {files.prefixes.question!r} before a question, {files.prefixes.passage!r} before a passage{known}"


def offers_in(folder: Path) -> list[EmbedderOffer]:
    """Return the models in the subfolders of `folder`, by name; folders without a model are left out."""
    found = []
    for each in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            found.append(local_offer(each))
        except WronglyAsked:
            continue
    return found


def fastembed_offers(models: Path) -> list[EmbedderOffer]:
    """Return fastembed's list, the smallest models first; nothing if it is not installed. `models` is where it stores them."""
    if importlib.util.find_spec("fastembed") is None:
        return []
    # An optional extra, which takes a second to load.
    from fastembed import TextEmbedding

    found = []
    for described in TextEmbedding.list_supported_models():
        model, text = str(described["model"]), str(described.get("description", ""))
        tokens = re.search(r"(\d+) input tokens", text)
        source = str(described.get("sources", {}).get("hf") or model)
        provided = models / model.replace("/", "--")
        fetched = models / f"models--{source.replace('/', '--')}"
        family = family_of(model)
        found.append(
            EmbedderOffer(
                name=model,
                setting=f"fastembed:{model}",
                size_bytes=int(float(described.get("size_in_GB", 0)) * 1e9),
                licence=str(described.get("license", "")),
                languages="; ".join(languages_in(text))[:60],
                multilingual=finds_across(model, text),
                dimensions=int(described.get("dim", 0)),
                max_tokens=int(tokens[1]) if tokens else 0,
                prefixes=family.prefixes if family else NO_PREFIXES,
                to_download=not (provided.is_dir() or fetched.is_dir()),
            )
        )
    return sorted(found, key=lambda offer: (offer.size_bytes, offer.name))


def endpoint_offer(model: str, url: str) -> EmbedderOffer:
    """Return the offer of a model at an OpenAI-compatible endpoint, of which only its name is known."""
    family = family_of(model)
    return EmbedderOffer(
        name=f"endpoint:{model}",
        setting=f"endpoint:{model}",
        multilingual=known_multilingual(model) or None,
        prefixes=family.prefixes if family else NO_PREFIXES,
        notes=("size, licence and languages: see the model's own page",),
        sends_to=shown_address(url),
    )


def named(name: str, known: Sequence[EmbedderOffer]) -> EmbedderOffer | None:
    """Return the offer with that name or setting, whatever its case."""
    wanted = name.casefold()
    return next((o for o in known if wanted in (o.name.casefold(), o.setting.casefold())), None)
