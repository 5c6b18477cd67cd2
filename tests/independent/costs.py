#!/usr/bin/env python3
"""Compares the dollars that recordings state with what our price list makes of the same usage.

    costs.py FOLDER PRICES CTXSIM [TABLE]

FOLDER has a folder of recordings per format, PRICES is src/provider/models/prices.csv. Nothing of ctxsim prices
anything here; `read` says whether `CTXSIM audit` takes over exactly what is stated. Rows go to TABLE (Markdown;
standard output without it) under names that tell nothing of the recordings. Ends with 1 if ctxsim read another cost, or
if a known price gives another.
"""

import csv
import json
import pathlib
import re
import subprocess
import sys

from readers import blocks, obj, objects


def pi(path):
    for line in objects(path):
        message = obj(obj(line).get("message"))
        usage = obj(message.get("usage"))
        if usage:
            tokens = [usage.get(name) or 0 for name in ("input", "cacheRead", "cacheWrite", "output")]
            yield message.get("model"), tokens, obj(usage.get("cost")).get("total")


def opencode(path):
    for message in objects(path)[0]["messages"]:
        info = message["info"]
        if info.get("role") == "assistant" and info.get("tokens"):
            tokens, cache = info["tokens"], info["tokens"]["cache"]
            output = tokens["output"] + (tokens.get("reasoning") or 0)
            yield info.get("modelID"), [tokens["input"], cache["read"], cache["write"], output], info.get("cost")


def completion(response):
    usage = obj(response.get("usage"))
    read = obj(usage.get("prompt_tokens_details")).get("cached_tokens") or usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    prompt = usage.get("prompt_tokens") or 0
    return response.get("model"), [prompt - read - written, read, written, usage.get("completion_tokens") or 0]


def mini_swe_agent(path):
    document = objects(path)[0]
    for message in blocks(document if isinstance(document, list) else document["messages"]):
        extra = obj(message.get("extra"))
        response = obj(extra.get("response"))
        if response.get("usage"):
            cost = extra.get("cost")
            yield *completion(response), response["usage"].get("cost") if cost is None else cost


def raw_requests(path):
    document = objects(path)[0] if path.suffix == ".json" else None
    if isinstance(document, dict) and "cost" in document:
        yield *completion(document["response"]), document["cost"]


def openhands(path):
    for document in objects(path):
        metrics = obj(obj(document).get("metrics"))
        for used in blocks(metrics.get("token_usages")):
            read, written = used["cache_read_tokens"], used["cache_write_tokens"]
            tokens = [used["prompt_tokens"] - read - written, read, written, used["completion_tokens"]]
            yield used["model"], tokens, 0 if metrics.get("accumulated_cost") == 0 else None


STATING = [pi, opencode, mini_swe_agent, openhands, raw_requests]


def price_of(prices, model):
    """The first row of a model, whatever gateway and date are in its name."""
    name = re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d)$", "", (model or "").split("/")[-1])
    return prices.get(name) or prices.get(name.replace(".", "-"))


def dollars(row, tokens):
    """uncached, read, written for the short life, output; the whole request at the higher price above a tier."""
    tier = "tier_" if row["tier_above_prompt_tokens"] and sum(tokens[:3]) > int(row["tier_above_prompt_tokens"]) else ""
    price = lambda name: float(row[tier + name] or row[name] or row["input"])
    return sum(t * price(n) for t, n in zip(tokens, ("input", "cache_read", "cache_write_short", "output"))) / 1e6


def main(folder, prices, program, table=None):
    rows = csv.DictReader(open(prices, newline=""))
    prices, lines, wrong = {}, [], []
    for row in rows:
        prices.setdefault(row["model_id"], row)
    for stating in STATING:
        kind = pathlib.Path(folder) / stating.__name__
        for number, path in enumerate(sorted(p for p in kind.iterdir()), 1):
            requests = [r for r in stating(path) if r[2] is not None]
            if not requests:
                continue
            name, stated = f"{kind.name} {number}", sum(cost for _, _, cost in requests)
            known = [(price_of(prices, model), tokens, cost) for model, tokens, cost in requests]
            unknown = sorted({model for (model, _, _), (row, _, _) in zip(requests, known) if not row})
            priced = [(dollars(row, tokens), cost) for row, tokens, cost in known if row]
            reasons = [f"no price of {', '.join(unknown)}"] if unknown else []
            if not stated:
                reasons = ["nothing is stated: 0 stands for a price that the client did not know, or a subscription"]
            off = [1 for ours, cost in priced if stated and abs(ours - cost) > 5e-9]
            run = subprocess.run([program, "audit", str(path), "--format", "json"], capture_output=True)
            said = json.loads(run.stdout)["total"]["cost_usd"] if run.returncode in (0, 5) else None
            read = "yes" if stated and said is not None and abs(said - stated) < 0.005 else "-" if not stated else "no"
            if read == "no" or off:
                wrong.append(f"{name} ({path.name}): stated {stated}, ctxsim {said}, requests with another price {len(off)}")
            ours = f"{sum(o for o, _ in priced):.6f}" if priced else "-"
            of = f"{len(priced)} of {len(requests)}"
            of_stated = f"{sum(c for _, c in priced):.6f}" if priced and stated else "-"
            lines.append([name, f"{stated:.6f}", read, of, of_stated, ours, "; ".join(reasons)])
    head = [["recording", "stated $", "read", "requests with a price", "stated for them $", "by our list $", "why not the same"], ["---", "--:", "---", "--:", "--:", "--:", "---"]]
    text = HEAD + "".join("| " + " | ".join(row) + " |\n" for row in head + lines)
    pathlib.Path(table).write_text(text) if table else print(text, end="")
    print("\n".join(wrong) or f"{len(lines)} recordings: every stated cost is read, and every known price gives it", file=sys.stderr)
    return bool(wrong)


HEAD = """# What recordings say they cost

Dollars as recordings of five formats state them, and as our price list makes them of the same usage, request by request.
`read`: `ctxsim audit` reports the stated sum to the cent. Written by
`python3 tests/independent/costs.py FOLDER src/provider/models/prices.csv target/release/ctxsim docs/costs.md`, which shares
nothing with ctxsim but the list; the recordings are not committed.

"""

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
