"""Times the compressor of hermes-agent (PyPI) in one process, warm, with its model call stubbed.

    python3 -m venv VENV && VENV/bin/pip install hermes-agent
    VENV/bin/python bench/compress/hermes.py BODY WINDOW [--runs N] [--profile]

Everything else is as it comes: redaction on, its own token estimate (characters by four), its own thresholds for the window.
Each run has a new compressor, as a session's first compaction has, and the same parsed messages: reading JSON is not counted.
Prints one line of JSON. A run that folds no middle is an error.
"""

import argparse
import cProfile
import json
import logging
import os
import pstats
import statistics
import sys
import tempfile
import time
from types import SimpleNamespace

import chat

os.environ["HERMES_HOME"] = tempfile.mkdtemp()

from agent import context_compressor, redact  # noqa: E402

SUMMARY = "## Goal\nMake the failing tests pass.\n\n## Completed Actions\n1. Ran the tests [tool: bash]\n"


def stub(**call):
    """Answers at once, and keeps the length of the prompt that was made for the model."""
    stub.prompt = len(call["messages"][0]["content"])
    return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=SUMMARY))])


def once(messages, window):
    """One compaction: seconds, seconds of the processor, what came out, and the compressor."""
    compressor = context_compressor.ContextCompressor("bench", config_context_length=window, quiet_mode=True)
    wall, processor = time.perf_counter(), time.process_time()
    out = compressor.compress(messages)
    return time.perf_counter() - wall, time.process_time() - processor, out, compressor


def main():
    options = argparse.ArgumentParser()
    options.add_argument("body")
    options.add_argument("window", type=int)
    options.add_argument("--runs", type=int, default=9)
    options.add_argument("--profile", action="store_true")
    options = options.parse_args()

    logging.disable(logging.CRITICAL)
    context_compressor.call_llm = stub
    messages = chat.messages(json.load(open(options.body, encoding="utf-8")))
    before = json.dumps(messages)
    _, _, out, compressor = once(messages, options.window)
    if not compressor._last_compression_made_progress or compressor._last_summary_fallback_used or len(out) >= len(messages):
        sys.exit("the alternative did not fold a middle: this measures nothing")
    if json.dumps(messages) != before:
        sys.exit("the alternative changed its input: later runs would measure something else")
    if options.profile:
        with cProfile.Profile() as profile:
            once(messages, options.window)
        pstats.Stats(profile).sort_stats("tottime").print_stats(18)
    runs = [once(messages, options.window)[:2] for _ in range(options.runs)]
    print(
        json.dumps(
            {
                "messages": [len(messages), len(out)],
                "prompt_characters": stub.prompt,
                "redaction": redact._REDACT_ENABLED,
                "trigger": compressor.threshold_tokens,
                "tail": compressor.tail_token_budget,
                "wall_ms": [round(1000 * f([run[0] for run in runs]), 2) for f in (statistics.median, min, max)],
                "processor_ms": [round(1000 * f([run[1] for run in runs]), 2) for f in (statistics.median, min, max)],
            }
        )
    )


if __name__ == "__main__":
    main()
