"""`journeys`: lets a model lead an agent over a knowledge base, and scores the answers beside those with the search tools alone."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio

from agents.loop.model.errors import ProviderError
from agents.loop.model.ports import Provider
from agents.loop.providers.access import Access, RequestPatience
from agents.loop.providers.anthropic.provider import anthropic_provider
from agents.loop.providers.openai.provider import openai_provider
from agents.loop.record.frames import RunLimits
from tests.bench.journeys.labels import LabelledQuestion, load
from tests.bench.journeys.leader import QuestionOutcome, lead
from tests.benchmarks.handbook import write_section
from tests.benchmarks.served import served

KEYS = {"openai": "OPENAI_API_KEY", "openai-responses": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
MOST_REASONS = 6


def add(programs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the program and its options."""
    parser = programs.add_parser("journeys", help="let a model lead an agent over a knowledge base, and score it")
    parser.add_argument("--model", required=True, metavar="NAME", help="the name by which the server knows the model")
    parser.add_argument(
        "--provider", choices=sorted(KEYS), default="openai", help="default: openai, which most servers speak"
    )
    parser.add_argument(
        "--base-url", default="", metavar="URL", help="the server's address; without one, the vendor's own"
    )
    parser.add_argument("--kb", required=True, type=Path, metavar="FOLDER", help="the knowledge base")
    parser.add_argument(
        "--questions", required=True, type=Path, metavar="FILE", help="labelled questions as JSON Lines"
    )
    parser.add_argument("--agent", default="research", metavar="NAME", help="the agent to lead (default: research)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions")
    parser.add_argument(
        "--iterations", type=int, default=30, metavar="N", help="answers of the model for each question"
    )
    parser.add_argument("--seconds", type=float, default=600.0, metavar="S", help="time for each question")
    parser.add_argument(
        "--context-tokens", type=int, default=24_000, metavar="N", help="the most that the model is sent"
    )
    parser.add_argument("--answer-tokens", type=int, default=2_048, metavar="N", help="the most of one of its answers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there")
    parser.add_argument("--write-doc", action="store_true", help="write the table into kb/reference/benchmarks.md")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Measure, print the table, and write what was asked for; 1 if the model cannot be asked at all."""
    try:
        questions = load(given.questions, given.limit)
        outcomes = anyio.run(partial(measured, given, questions))
    except (OSError, ValueError, ProviderError) as error:
        print(error, file=sys.stderr)
        return 1
    if given.json is not None:
        rows = [asdict(outcome) for outcome in outcomes]
        given.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    lines = section(outcomes, given)
    print("\n".join(lines))
    if given.write_doc:
        write_section("model journeys", lines)
    return 0


async def measured(given: argparse.Namespace, questions: Sequence[LabelledQuestion]) -> list[QuestionOutcome]:
    """Return the outcome of every question, led by the agent and with the search tools alone by turns."""
    limits = RunLimits(
        iterations=given.iterations,
        seconds=given.seconds,
        tokens=None,
        context_tokens=given.context_tokens,
        answer_tokens=given.answer_tokens,
    )
    outcomes = list[QuestionOutcome]()
    provider = provider_of(given)
    try:
        with tempfile.TemporaryDirectory(prefix="forge-bench-") as state:
            async with served(given.kb.resolve(), Path(state)) as host:
                for question in questions:
                    for agent in (given.agent, ""):
                        outcome = await lead(host.client, provider, question, agent, limits)
                        outcomes.append(outcome)
                        print(
                            f"{outcome.way}, {question.id}: {outcome.state}, right: {outcome.right}",
                            file=sys.stderr,
                            flush=True,
                        )
    finally:
        await provider.aclose()
    return outcomes


def provider_of(given: argparse.Namespace) -> Provider:
    """Return the provider that the options name; its key is in the vendor's usual variable.

    Raises:
        ProviderError: it cannot be asked like this.
    """
    setting = KEYS[given.provider]
    access = Access(
        given.model,
        key=os.environ.get(setting, ""),
        address=given.base_url,
        key_setting=setting,
        address_setting="--base-url",
        model_setting="--model",
        bound_setting="--answer-tokens",
    )
    patience = RequestPatience(whole_s=given.seconds)
    if given.provider == "anthropic":
        return anthropic_provider(access, patience=patience)
    return openai_provider(access, "responses" if given.provider == "openai-responses" else "chat", patience=patience)


def section(outcomes: Sequence[QuestionOutcome], given: argparse.Namespace) -> list[str]:
    """Return the section of the handbook: a row for each way, and the most frequent refusals."""
    ways = dict.fromkeys(outcome.way for outcome in outcomes)
    lines = [
        "## Journeys led by a model",
        "",
        f"`{given.model}` leads `{given.agent}` over {given.kb.name}, and answers the same questions with the search tools alone",
        "(`python -m tests.bench journeys --model NAME --base-url URL --kb FOLDER --questions FILE --write-doc`;",
        f"{datetime.now(UTC).date().isoformat()}). *Right* has an expected string or names a right page; *cited* names a right page;",
        "*led* are the journeys that were led to their end. Calls, tokens and seconds are means for a question.",
        "",
        "| way | questions | answered | right | cited | led | iterations | calls | tokens in | tokens out | seconds | refusals |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(_row(way, [one for one in outcomes if one.way == way]) for way in ways),
    ]
    for way in ways:
        found = Counter[str]()
        for one in outcomes:
            found.update(one.refusals if one.way == way else {})
        if found:
            lines += ["", f"Most frequent refusals, {way}:", ""]
            lines += [
                f"- {number} times {reason.replace('|', '/')}" for reason, number in found.most_common(MOST_REASONS)
            ]
    return lines


def _row(way: str, some: Sequence[QuestionOutcome]) -> str:
    count = len(some)
    led = sum(bool(one.complete) for one in some) if some[0].complete is not None else ""
    means = [
        sum(values) / count
        for values in zip(*((o.iterations, o.calls, o.tokens_in, o.tokens_out) for o in some), strict=True)
    ]
    seconds = sum(one.seconds for one in some) / count
    refused = sum(sum(one.refusals.values()) for one in some)
    sums = [sum(one.answered for one in some), sum(one.right for one in some), sum(one.cited for one in some)]
    return (
        f"| {way} | {count} | {' | '.join(map(str, sums))} | {led} | "
        f"{' | '.join(f'{mean:,.1f}' if mean < 100 else f'{mean:,.0f}' for mean in means)} | {seconds:,.1f} | {refused} |"
    )
