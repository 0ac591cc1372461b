#!/usr/bin/env python3
"""How much is known after a compaction if each question may be searched for once, with its own words?

    bench/recall/questions.py --longhaul target/release/longhaul --measure MEASURE --bodies CORPUS --exam KEYS [--limit 5]

The exam of `measure/exam.py`: each body is cut and compacted by code, this time into a store. A fact is known if its expressions
are found in the compacted body, or in it together with what one search with the question's words prints.
"""
import argparse, glob, json, os, statistics, subprocess, sys, tempfile


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--longhaul", default="target/release/longhaul")
    ap.add_argument("--measure", required=True)
    ap.add_argument("--bodies", required=True)
    ap.add_argument("--exam", required=True)
    ap.add_argument("--to", default="policy")
    ap.add_argument("--limit", default="5")
    ap.add_argument("--show", action="store_true", help="print each fact that is still not known")
    a = ap.parse_args()
    sys.path.insert(0, a.measure)
    from exam import count, found, items, text_of, with_items

    rows = []
    for path in sorted(glob.glob(os.path.join(a.exam, "*.json"))):
        exam = json.load(open(path))
        body = json.load(open(os.path.join(a.bodies, exam["file"])))
        before = json.dumps(with_items(body, items(body)[: exam["cut"]]), ensure_ascii=False).encode()
        n = count(a.longhaul, before)
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store.db")
            size = ["--context-length", str(n)] if a.to == "policy" else ["--context-length", str(2 * n), "--to-tokens", str(int(n * float(a.to)))]
            out = subprocess.run([a.longhaul, "compress", "-", "--force", "--summarizer", "none", *size, "--store", store], input=before, capture_output=True).stdout
            text = "\n".join(text_of(m) for m in items(json.loads(out)))
            known = with_search = alone = shown = weights = 0
            for fact in exam["facts"]:
                weight = fact.get("weight", 1)
                ask = [a.longhaul, "recall", "--search", fact["ask"], "--store", store, "--limit", a.limit, "--json"]
                hits = subprocess.run(ask, capture_output=True).stdout
                excerpts = "\n".join(hit["excerpt"] for hit in json.loads(hits).get("results", [])) if hits else ""
                shown += len(excerpts)
                weights += weight
                known += weight * bool(found(fact, text))
                alone += weight * bool(found(fact, excerpts))
                met = found(fact, text) or found(fact, excerpts) or found(fact, text + "\n" + excerpts)
                with_search += weight * bool(met)
                if a.show and not met:
                    print(f"{os.path.basename(path)}: {fact['id']}: {fact['ask']} -> {fact['answer']}")
            rows.append((known / weights, with_search / weights, alone / weights, shown / len(exam["facts"])))
            print(f"{os.path.basename(path):34} known {rows[-1][0]:.3f}  with one search {rows[-1][1]:.3f}  by the search alone {rows[-1][2]:.3f}", flush=True)
    known, with_search, alone, shown = (statistics.mean(column) for column in zip(*rows))
    print(f"{len(rows)} bodies: known {known:.3f}, with one search {with_search:.3f}, by the search alone {alone:.3f}; {shown:.0f} characters shown for each question")


if __name__ == "__main__":
    main()
