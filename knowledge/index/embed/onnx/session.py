"""Opens a model's files: its tokenizer, and its session in onnxruntime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tokenizers import Tokenizer

from knowledge.extras import install_command
from knowledge.index.embed.onnx.model_files import ModelFiles, UnusableModel

if TYPE_CHECKING:
    import onnxruntime

KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})


class NoRuntime(UnusableModel):
    """Onnxruntime is not installed; `mend` says what to do."""

    mend = install_command("onnx")


def tokenizer_of(
    files: ModelFiles, *, strategy: Literal["longest_first", "only_second"] = "longest_first"
) -> Tokenizer:
    """Return the tokenizer, which cuts texts, and pairs of texts by `strategy`, to the length that the model accepts.

    Raises:
        UnusableModel: it cannot be read.
    """
    try:
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
    except Exception as error:  # the library raises plain `Exception`
        raise UnusableModel(f"its tokenizer cannot be read ({error})") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(files.max_tokens, strategy=strategy)
    return tokenizer


def session_of(files: ModelFiles) -> onnxruntime.InferenceSession:
    """Return the loaded model, which several threads may run.

    Raises:
        NoRuntime: onnxruntime is not installed.
        UnusableModel: it cannot be loaded, or needs more than texts.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise NoRuntime(f"onnxruntime cannot be loaded ({error})") from error
    options = onnxruntime.SessionOptions()
    # One thread per run and several runs at a time: a question never waits for low-priority threads, and no time is lost by
    # splitting small matrices (kb/decisions/0057).
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # It would keep a memory plan for each shape of a batch. There are hundreds of shapes, which took 180 MB more.
    options.enable_mem_pattern = False
    options.log_severity_level = 4  # its warnings would go to the terminal, past our log
    try:
        session = onnxruntime.InferenceSession(str(files.weights), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises its own types and the system's
        raise UnusableModel(f"{files.weights.name} cannot be loaded ({type(error).__name__})") from error
    if odd := {given.name for given in session.get_inputs()} - KNOWN_INPUTS:
        raise UnusableModel(f"it needs the input {', '.join(sorted(odd))}, which text alone cannot provide")
    return session
