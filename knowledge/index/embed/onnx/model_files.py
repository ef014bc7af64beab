"""The files of a transformer in ONNX form: where they are, and how texts become vectors with it.

The layout and the configuration files are those of sentence-transformers, in which most published embedding models come.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from knowledge.index.embed.identity import NO_PREFIXES, Prefixes, known_multilingual

Pooling = Literal["mean", "cls", "max", "last"]

LONGEST_TOKENS = 512
"""Longer texts are cut. The memory that attention takes grows with the square of the length, and passages are rarely longer."""
MOST_CONFIG_BYTES = 1_000_000
HASHED_BYTES = 1 << 20
"""Bytes hashed at each end of a large file, and not all of it, because this runs at every start."""
MISSING = "missing"
WEIGHTS = ("model_quantized.onnx", "model_int8.onnx", "model_quint8_avx2.onnx", "model.onnx")
"""Preferred names of weight files, best first. Quantised weights need a quarter of the memory and are faster."""
_POOLING_MODES: Mapping[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_QUESTION_PROMPTS = ("query", "retrieval.query", "s2p_query", "web_search_query")
_PASSAGE_PROMPTS = ("passage", "document", "retrieval.passage", "retrieval.document")


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Requirements of a family of models that its documentation states but older configuration files lack."""

    names: re.Pattern[str]
    pooling: Pooling
    prefixes: Prefixes = NO_PREFIXES


_TASK = "Given a web search query, retrieve relevant passages that answer the query"
_SEARCHING = "Represent this sentence for searching relevant passages: "
_FAMILIES = (
    ModelFamily(re.compile(r"\be5[-_].*instruct"), "mean", Prefixes(f"Instruct: {_TASK}\nQuery: ")),
    ModelFamily(re.compile(r"\be5[-_]|[-_]e5\b"), "mean", Prefixes("query: ", "passage: ")),
    ModelFamily(re.compile(r"\bnomic[-_]embed"), "mean", Prefixes("search_query: ", "search_document: ")),
    ModelFamily(re.compile(r"\b(bge[-_].*[-_]en|mxbai[-_]embed)\b"), "cls", Prefixes(_SEARCHING)),
    ModelFamily(re.compile(r"\bbge[-_]"), "cls"),
    ModelFamily(re.compile(r"\bsnowflake-arctic-embed.*v2"), "cls", Prefixes("query: ")),
    ModelFamily(re.compile(r"\bsnowflake-arctic-embed"), "cls", Prefixes(_SEARCHING)),
    ModelFamily(re.compile(r"\bgte-(multilingual|.*-en-v1\.5)"), "cls"),
)


def family_of(name: str) -> ModelFamily | None:
    """Return the family of the model with that name; None if it is not one whose needs are known."""
    return next((family for family in _FAMILIES if family.names.search(name.casefold())), None)


class UnusableModel(Exception):
    """The files are missing or not a usable model; the message says why."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on this machine. `digest` changes with its files, so that an index notices a replaced model."""

    name: str
    weights: Path
    tokenizer: Path
    pooling: Pooling
    prefixes: Prefixes
    max_tokens: int
    pad_id: int
    dimensions: int
    """The length of a vector, 0 if no file specifies it."""
    size_bytes: int
    licence: str
    languages: tuple[str, ...]
    digest: str
    assumed: tuple[str, ...] = ()
    """The properties that no file states, and that were taken from the model's name or from what is usual."""

    @property
    def multilingual(self) -> bool:
        """Whether it finds texts in languages other than the question's.

        It does if its model card lists several languages, or if its name is that of a known multilingual model.
        """
        return len(self.languages) > 1 or "multilingual" in self.languages or known_multilingual(self.name)


def find_model(path: Path) -> ModelFiles:
    """Return the model in a folder, or the one whose `.onnx` file `path` is.

    Raises:
        UnusableModel: a file is missing or cannot be read, or the model needs more than pooling.
    """
    weights = path if path.suffix == ".onnx" else _weights_in(path)
    if not weights.is_file():
        raise UnusableModel(f"there is no file {weights}")
    folder = _folder_of(weights)
    places = (folder / "tokenizer.json", weights.parent / "tokenizer.json")
    tokenizer = next((file for file in places if file.is_file()), None)
    if tokenizer is None:
        raise UnusableModel(f"there is no tokenizer.json beside {weights.name}")
    config = _json(folder / "config.json")
    name = _name(folder, config)
    family = family_of(name)
    pooling, prefixes = _pooling(folder), _prompts(folder)
    assumed = [
        *(["pooling"] if pooling is None else []),
        *(["prefixes"] if prefixes is None and family and family.prefixes != NO_PREFIXES else []),
    ]
    licence, languages = _model_card(folder / "README.md")
    files = [weights, *sorted(weights.parent.glob(f"{weights.name}_data")), tokenizer]
    # The name of the folder counts: the family, and with it the prefixes, may follow from it.
    texts = [name, *(_text(folder / each) for each in _CONFIGURATION)]
    return ModelFiles(
        name=name,
        weights=weights,
        tokenizer=tokenizer,
        pooling=pooling or (family.pooling if family else "mean"),
        prefixes=prefixes if prefixes is not None else family.prefixes if family else NO_PREFIXES,
        max_tokens=_max_tokens(folder, config),
        pad_id=_whole(config.get("pad_token_id")) or 0,
        dimensions=_whole(config.get("hidden_size")) or _whole(config.get("dim")) or 0,
        size_bytes=sum(file.stat().st_size for file in files),
        licence=licence,
        languages=languages,
        digest=_digest(texts, files),
        assumed=tuple(assumed),
    )


def digest_of(path: Path) -> str:
    """Return the digest of the model in a folder or file; `MISSING` if there is none. It takes milliseconds."""
    try:
        return find_model(path).digest
    except (UnusableModel, OSError):
        return MISSING


_CONFIGURATION = (
    "config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "modules.json",
    "1_Pooling/config.json",
)


def _weights_in(folder: Path) -> Path:
    """Return the file of weights to use in a folder, or in its subfolder `onnx`, where publishers put it."""
    if not folder.is_dir():
        raise UnusableModel(f"there is no folder {folder}")
    for place in (folder, folder / "onnx"):
        found = {file.name: file for file in sorted(place.glob("*.onnx"))}
        if preferred := next((found[name] for name in WEIGHTS if name in found), None):
            return preferred
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            raise UnusableModel(f"{place} has several models ({', '.join(found)}); name one of these files")
    raise UnusableModel(f"there is no .onnx file in {folder}")


def _folder_of(weights: Path) -> Path:
    """Return the folder with the model's configuration: publishers put the weights into a folder `onnx` in it."""
    above = weights.parent.parent
    return above if weights.parent.name == "onnx" and (above / "config.json").is_file() else weights.parent


def _name(folder: Path, config: Mapping[str, Any]) -> str:
    """Return the model's name as its publisher gave it, or else the folder's."""
    # The cache of the hub that most models come from: models--ORGANISATION--NAME/snapshots/REVISION.
    cached = next((part for part in reversed(folder.parts) if part.startswith("models--")), "")
    if cached:
        return cached.rpartition("--")[2]
    named = config.get("_name_or_path")
    # Training leaves paths of other machines and the name of the base model here; only a name like ours helps.
    return named if isinstance(named, str) and named.endswith(folder.name) else folder.name


def _pooling(folder: Path) -> Pooling | None:
    """Return how token vectors are pooled into one; None if no file specifies it."""
    module_folder = "1_Pooling"
    for module in _json_list(folder / "modules.json"):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            module_folder = str(module.get("path", module_folder))
        elif kind not in ("Transformer", "Normalize"):
            raise UnusableModel(f"it has a layer of the kind {kind}, which is not in the .onnx file")
    # The path comes from someone else's file: only a folder directly inside the model's is accepted.
    config = _json(folder / Path(module_folder).name / "config.json")
    if config.get("pooling_mode") in get_args(Pooling):
        return config["pooling_mode"]  # type: ignore[no-any-return]  # checked just now
    modes = [mode for mode, on in config.items() if on is True and mode.startswith("pooling_mode_")]
    if not modes:
        return None
    if len(modes) > 1 or modes[0] not in _POOLING_MODES:
        raise UnusableModel(f"its pooling ({', '.join(modes)}) is not supported")
    return _POOLING_MODES[modes[0]]


def _prompts(folder: Path) -> Prefixes | None:
    """Return the prefixes in the model's files; None if they name none."""
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts")
    if not isinstance(prompts, dict):
        return None

    def of(names: Iterable[str]) -> str:
        return next((prompts[name] for name in names if isinstance(prompts.get(name), str)), "")

    found = Prefixes(of(_QUESTION_PROMPTS), of(_PASSAGE_PROMPTS))
    return found if found != NO_PREFIXES else None


def _max_tokens(folder: Path, config: Mapping[str, Any]) -> int:
    stated = [
        _whole(_json(folder / "sentence_bert_config.json").get("max_seq_length")),
        _whole(config.get("max_position_embeddings")),
    ]
    return min(LONGEST_TOKENS, *(number for number in stated if number), LONGEST_TOKENS)


def _model_card(file: Path) -> tuple[str, tuple[str, ...]]:
    """Return the licence and the languages in the front matter of a README, "" and () where it has none."""
    front = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|$)", _text(file), re.DOTALL)
    if front is None:
        return "", ()
    # Two keys of a simple form do not need a YAML parser, which would have to be protected from a hostile file.
    licence = re.search(r"^licen[cs]e:[ \t]*([\w.+-]{1,60})[ \t]*$", front[1], re.MULTILINE)
    language = re.search(r"^languages?:[ \t]*(.*)((?:\n[ \t]*-[^\n]*)*)", front[1], re.MULTILINE)
    codes = re.findall(r"[A-Za-z]{2,20}", f"{language[1]} {language[2]}") if language else []
    return licence[1] if licence else "", tuple(dict.fromkeys(codes))


def _digest(texts: Iterable[str], files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for text in texts:
        found.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
    for file in files:
        for part in _ends(file):
            found.update(part)
    return found.hexdigest()[:12]


def _ends(file: Path) -> Iterator[bytes]:
    size = file.stat().st_size
    yield str(size).encode()
    with file.open("rb") as opened:
        yield opened.read(HASHED_BYTES)
        opened.seek(max(0, size - HASHED_BYTES))
        yield opened.read(HASHED_BYTES)


def _text(file: Path) -> str:
    """Return the text of a small file; an empty string if it is missing or cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _json(file: Path) -> dict[str, Any]:
    found = _parsed(file)
    return found if isinstance(found, dict) else {}


def _json_list(file: Path) -> list[dict[str, Any]]:
    found = _parsed(file)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _parsed(file: Path) -> object:
    text = _text(file)
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise UnusableModel(f"{file} cannot be read as JSON") from error


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
