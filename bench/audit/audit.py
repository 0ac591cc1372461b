#!/usr/bin/env python3
"""What the audit of a summary keeps and mends, on summaries written by hand for the bodies of the exam.

    LONGHAUL_SHARED=… bench/audit/audit.py [--longhaul target/release/longhaul] [--folder second] [--show] [NAME …]

summaries/NAME.txt is a good handover of one body at its cut. spoiled/NAME.txt is the same with four slips, which spoiled/NAME.json
names: a rule dropped, an outcome turned, a path invented, a finished task put as open. Each is handed in with `compress --summary`
in a window of the body's own size. Printed: the share of the good summaries, by characters, that stands word for word in the
checkpoint; and how many slips are mended: the rule's words are in the request again, the other three are gone from our words.
"""
import argparse, glob, json, os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.environ.get("LONGHAUL_SHARED") or sys.exit("LONGHAUL_SHARED names the folder of real bodies; it is not set")
sys.path.insert(0, os.path.join(SHARED, "measure"))
from retention import items, with_items


def plain(text):
    return re.sub(r"\s+", " ", text)


def bare(line):
    return plain(re.sub(r"^(\d+\. |- )", "", line.strip()))


def clauses(line):
    return re.split(r"(?<=[.;]) ", bare(line))


def body_of(name):
    exam = json.load(open(os.path.join(SHARED, "exam", name + ".json")))
    body = json.load(open(os.path.join(SHARED, "corpus", exam["file"])))
    return json.dumps(with_items(body, items(body)[: exam["cut"]]), ensure_ascii=False)


def compressed(tool, body, tokens, summary, folder):
    out, report = os.path.join(folder, "out.json"), os.path.join(folder, "report.json")
    call = [tool, "compress", "-", "--force", "--context-length", str(tokens), "--summary", summary, "--quiet"]
    subprocess.run(call + ["-o", out, "--report", report], input=body.encode(), check=False)
    shown = subprocess.run(call + ["--show", "checkpoint"], input=body.encode(), capture_output=True, check=False)
    whole = json.dumps(json.load(open(out)), ensure_ascii=False).replace('\\"', '"').replace("\\n", " ")
    return json.load(open(report)), plain(shown.stdout.decode()), plain(whole)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--longhaul", default="target/release/longhaul")
    ap.add_argument("--folder", default=".", help="second: by another writer, who had not seen the first ones nor this program")
    ap.add_argument("--show", action="store_true", help="print what is taken out of good summaries, and each slip that stays")
    ap.add_argument("names", nargs="*")
    a = ap.parse_args()
    here = os.path.join(HERE, a.folder)
    names = a.names or sorted(os.path.basename(p)[:-4] for p in glob.glob(os.path.join(here, "summaries", "*.txt")))
    written = kept = 0
    mended = dict.fromkeys(["rule", "outcome", "path", "task"], 0)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            body = body_of(name)
            counted = subprocess.run([a.longhaul, "tokens", "--json", "-"], input=body.encode(), capture_output=True, check=True)
            tokens = json.loads(counted.stdout)["total"]
            good = os.path.join(here, "summaries", name + ".txt")
            report, checkpoint, _ = compressed(a.longhaul, body, tokens, good, folder)
            lines = [l for l in open(good) if l.strip() and not l.startswith("## ")]
            own = sum(len(c) for l in lines for c in clauses(l))
            stays = sum(len(c) for l in lines for c in clauses(l) if c in checkpoint)
            written, kept = written + own, kept + stays
            slips = json.load(open(os.path.join(here, "spoiled", name + ".json")))
            spoiled = os.path.join(here, "spoiled", name + ".txt")
            _, ours, whole = compressed(a.longhaul, body, tokens, spoiled, folder)
            was = set(clauses(slips["outcome"]["was"]))
            is_gone = lambda line: not any(c in ours for c in clauses(line) if c not in was)
            done = {
                "rule": all(plain(w).lower() in whole.lower() for w in slips["rule"]["words"]),
                "outcome": is_gone(slips["outcome"]["is"]),
                "path": slips["path"]["invented"] not in ours,
                "task": is_gone(slips["task"]["revived"]),
            }
            for slip, is_mended in done.items():
                mended[slip] += is_mended
            made = report["checkpoint"]
            print(f"{name:26} {made['tokens']:>5} tokens, {stays / own:.3f} word for word, stays: {', '.join(s for s in done if not done[s]) or 'nothing'}")
            if a.show:
                for f in report.get("findings", []):
                    if f["action"] == "taken_out":
                        print(f"    taken out of {f['section']}: {f['text'][:160]} ({f['why']})")
                for slip in (s for s in done if not done[s]):
                    print(f"    {slip}: {json.dumps(slips[slip], ensure_ascii=False)[:300]}")
    print(f"word for word {kept / written:.3f}; mended of {len(names)}: {', '.join(f'{k} {v}' for k, v in mended.items())}")


if __name__ == "__main__":
    main()
