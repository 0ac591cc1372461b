"""Fits the weights of the fast estimate on one half of the sources and judges them on the other.

    cargo build --release -p longhaul-engine --example token_classes
    LONGHAUL_SHARED=<folder> python3 bench/tokens/fit.py            # fits, prints weights and errors
    LONGHAUL_SHARED=<folder> python3 bench/tokens/fit.py --judge    # only judges the weights in the code

Standard library only. The fit is least squares on the relative error, no weight below zero, every source family of the
same importance, each weight drawn gently to a first guess, which decides where the data says little.
"""

import json
import random
import sys
from pathlib import Path

from corpus import SHARED, bodies, measure

PIECE = 4_000  # characters of a row of the fit
IMPORTANCE = {"language": 0.1, "generated": 0.1}  # against 1 for a family of the corpus
PULL = 1e-2  # to the first guess, in the same measure
LEAST = 2_000  # text tokens of a body that is judged

# First guesses, from how the tokenizers split text: a fit is drawn to them where its data says little.
GUESS = {
    "Prose": 1.0, "ProsePast8": 0.1, "ProsePast13": 0.1, "Word": 1.0, "WordPast5": 0.1, "WordPast10": 0.1,
    "WordAfterLetter": 0.1, "WordAfterDigit": 0.1, "WordAfterMark": 0.1, "Capitals": 1.0,
    "CapitalsPast2": 0.3, "Hex": 0.6, "Base64": 0.7, "Digits": 1.0, "Spaces": 1.0, "SpaceBeforeDigit": 1.0,
    "Newlines": 1.0, "NewlinesAfterMark": 0.2, "Marks": 1.0, "MarkBeforeLetter": 0.5, "MarksPast1": 0.3,
    "MarksPast3": 0.3, "Ruler": 1.0, "RulerSixteens": 1.0, "Latin": 1.0, "CyrillicWord": 0.4, "Cyrillic": 0.4,
    "ArabicWord": 0.4, "Arabic": 0.4, "Indic": 0.5, "Kana": 0.7, "Han": 0.8, "Hangul": 0.8, "Symbol": 1.0,
    "ThreeBytes": 1.5, "FourBytes": 2.0, "Control": 1.0,
}

# The file name up to the first underscore names the family, but for these, which share their texts with another.
SAME = {"derived-responses": "mini-swe-agent", "mini-swe-django-303k.chat.json": "mini-swe-agent",
        "openhands-swebench-202k.chat.json": "openhands"}


def family(name):
    first = name.split("_")[0]
    return SAME.get(first, first)


def pieces(text):
    """Parts of about PIECE characters, cut at line ends where there are any."""
    start = 0
    while start < len(text):
        end = text.rfind("\n", start, start + PIECE) + 1
        end = end if end > start + PIECE // 2 else start + PIECE
        yield text[start:end]
        start = end


def generated(seed):
    """Text of kinds that the corpus has little of."""
    dice = random.Random(seed)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    def draw(alphabet, n):
        return "".join(dice.choices(alphabet, k=n))

    yield "base64", draw(letters + "0123456789+/", 4_000)
    yield "base64 lines", "\n".join(draw(letters + "0123456789+/", 76) for _ in range(50))
    yield "hex", "\n".join(draw("0123456789abcdef", 40) for _ in range(80))
    yield "uuid", "\n".join("-".join(draw("0123456789abcdef", n) for n in (8, 4, 4, 4, 12)) for _ in range(80))
    yield "hex dump", "\n".join(f"{n:08x}: " + " ".join(draw("0123456789abcdef", 4) for _ in range(8)) for n in range(80))
    yield "csv", "\n".join(",".join(f"{dice.uniform(-999, 999):.{dice.randint(0, 6)}f}" for _ in range(8)) for _ in range(60))
    yield "json", json.dumps([{"id": dice.randint(1, 10**9), "ok": dice.random() < .5, "tag": draw(letters.lower(), 8)}
                              for _ in range(60)], separators=(",", ":"))
    yield "rulers", "\n".join(dice.choice("=-*#─") * dice.randint(8, 90) for _ in range(60))


def solve(rows, prior, pull):
    """Non-negative least squares by coordinate descent; rows are (importance, tokens, classes)."""
    n = len(prior)
    gram = [[0.0] * n for _ in range(n)]
    target = [0.0] * n
    for importance, tokens, classes in rows:
        used = [(i, c / tokens) for i, c in enumerate(classes) if c]
        for i, a in used:
            target[i] += importance * a
            for j, b in used:
                gram[i][j] += importance * a * b
    weights = list(prior)
    for _ in range(4_000):
        for i in range(n):
            rest = target[i] - sum(gram[i][j] * weights[j] for j in range(n)) + gram[i][i] * weights[i]
            weights[i] = max(0.0, (rest + pull * prior[i]) / (gram[i][i] + pull))
    return weights


def fit(samples, prior):
    """Weights from (family, text) samples."""
    by_family = {}
    for name, text in samples:
        by_family.setdefault(name, []).extend(pieces(text))
    rows = []
    for name, group in by_family.items():
        counted = [(tokens, classes) for tokens, _, classes in measure(group)[1] if tokens >= 20]
        rows += [(IMPORTANCE.get(name.split()[0], 1) / len(counted), tokens, classes) for tokens, classes in counted]
    return solve(rows, prior, PULL)


def judge(title, samples, weights):
    """Prints and returns the relative errors of (name, text) samples."""
    errors = []
    for (name, text), (tokens, in_code, classes) in zip(samples, measure([t for _, t in samples])[1]):
        guess = sum(w * c for w, c in zip(weights, classes)) if weights else in_code
        errors.append((guess / tokens - 1, name, len(text.encode()) / 4 / tokens - 1))
    mean = sum(abs(e) for e, _, _ in errors) / len(errors)
    worst = max(errors, key=lambda e: abs(e[0]))
    naive = sum(abs(e) for _, _, e in errors) / len(errors)
    bias = sum(e for e, _, _ in errors) / len(errors)
    print(f"{title}: {len(errors)} texts, mean error {mean:.1%}, worst {worst[0]:+.1%} ({worst[1]}), bias {bias:+.1%};"
          f" bytes/4: mean {naive:.1%}")
    return errors


def main():
    only_judge = sys.argv[1:] == ["--judge"]
    names, _ = measure([])
    prior = [GUESS[name] for name in names]

    corpus = [(name, "\n".join(parts), tokens) for name, parts, tokens in bodies()]
    large = [(name, text, tokens) for name, text, tokens in corpus if tokens >= LEAST]
    differ = [(name, len_) for (name, _, tokens), (len_, _, _) in zip(large, measure([t for _, t, _ in large])[1]) if len_ != tokens]
    print(f"{len(large)} bodies of {LEAST} text tokens or more; the index says the same of {len(large) - len(differ)} of them"
          + "".join(f"\n  {name}: {ours}" for name, ours in differ))

    families = sorted({family(name) for name, _, _ in corpus})
    halves = [set(families[::2]), set(families[1::2])]
    languages = json.loads((Path(__file__).parent / "languages.json").read_text())
    outputs = [(p.name, p.read_text(errors="replace")) for p in sorted((SHARED / "tool-outputs").iterdir())
               if p.suffix != ".json" or p.name != "MANIFEST.json"]

    for one, other in ((0, 1), (1, 0)):
        print(f"\nfitted on {', '.join(sorted(halves[one]))}")
        print(f"judged on {', '.join(sorted(halves[other]))}")
        samples = [(family(name), text) for name, text, _ in corpus if family(name) in halves[one]]
        samples += [(f"language {name}", texts[one]) for name, texts in languages.items()]
        samples += [(f"generated {name}", text) for name, text in generated(one)]
        weights = None if only_judge else fit(samples, prior)
        judge("  bodies", [(n, t) for n, t, _ in large if family(n) in halves[other]], weights)
        judge("  bodies of the fitted half", [(n, t) for n, t, _ in large if family(n) in halves[one]], weights)
        judge("  tool outputs", [(n, t) for n, t in outputs if t], weights)
        for error, name, _ in judge("  languages", [(n, t[other]) for n, t in languages.items()], weights):
            print(f"    {name} {error:+.1%}")
        for error, name, _ in judge("  generated", list(generated(other + 2)), weights):
            print(f"    {name} {error:+.1%}")
        if one == 0 and weights:
            shipped = weights
    if not only_judge:
        print("\nweights of the first fit, for estimate.rs")
        for name, weight in zip(names, shipped):
            print(f"    (Class::{name}, {weight:.3f}),")


main()
