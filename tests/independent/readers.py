#!/usr/bin/env python3
"""Counts what recordings hold, without ctxsim, and compares with what `ctxsim inspect` says of them.

    readers.py FOLDER CTXSIM [TABLE]

FOLDER has a folder of recordings per format. Each file is counted twice: here, with the standard library (and
PyYAML for cassettes), and by the program CTXSIM. The rows of both go to TABLE (Markdown; standard output without it),
under names that tell nothing of the recordings. Ends with 1 if any row differs.
"""

import json
import pathlib
import re
import sqlite3
import subprocess
import sys
import zipfile

FIELDS = ["requests", "with usage", "tool calls", "uncached", "read", "write 5m", "write 1h", "output", "compactions"]


def objects(path):
    """All JSON values of a file, one a line or not, glued together or not."""
    text = path.read_text(encoding="utf-8", errors="replace").lstrip("\ufeff")
    decoder, at, found = json.JSONDecoder(), 0, []
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            return found
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
        except ValueError:
            at = text.find("\n", at) + 1 or len(text)


def obj(value):
    return value if isinstance(value, dict) else {}


def blocks(content):
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


class Count(dict):
    def __init__(self):
        super().__init__({field: 0 for field in FIELDS})

    def request(self, usage=None):
        """usage: (uncached, read, write 5m, write 1h, output), or nothing."""
        self["requests"] += 1
        if usage and any(usage):
            self["with usage"] += 1
            for field, tokens in zip(FIELDS[3:8], usage):
                self[field] += tokens


def claude_code(path, count):
    usages, calls = {}, set()

    def line(message):
        usage = obj(message.get("usage"))
        life = obj(usage.get("cache_creation"))
        written = usage.get("cache_creation_input_tokens", 0)
        hour = life.get("ephemeral_1h_input_tokens", 0)
        row = [usage.get("input_tokens", 0), usage.get("cache_read_input_tokens", 0), written - hour, hour, usage.get("output_tokens", 0)]
        old = usages.setdefault(message["id"], row)
        usages[message["id"]] = [max(pair) for pair in zip(old, row)]
        calls.update(b["id"] for b in blocks(message.get("content")) if b["type"] == "tool_use")

    for entry in map(obj, objects(path)):
        message = obj(entry.get("message"))
        if entry.get("type") == "assistant" and message.get("model") != "<synthetic>":
            line(message)
        inner = obj(obj(obj(entry.get("data")).get("message")).get("message"))
        if entry.get("type") == "progress" and inner.get("role", "assistant") == "assistant" and "id" in inner:
            line(inner)
        if entry.get("subtype") == "compact_boundary":
            count["compactions"] += 1
    for usage in usages.values():
        count.request(usage)
    count["tool calls"] = len(calls)


def codex(path, count):
    totals, run, seen = None, "closed", set()

    def close():
        nonlocal run
        if run != "closed":
            count.request()
        run = "closed"

    for entry in map(obj, objects(path)):
        item = obj(entry.get("payload"))
        kind = item.get("type", "")
        if entry.get("type") == "compacted":
            close()
            count["compactions"] += 1
        elif entry.get("type") == "event_msg" and kind == "token_count":
            info = obj(item.get("info"))
            if info and info.get("total_token_usage") != totals:
                totals = info.get("total_token_usage")
                usage = obj(info.get("last_token_usage"))
                read, written = usage.get("cached_input_tokens", 0), usage.get("cache_write_input_tokens", 0)
                count.request((usage.get("input_tokens", 0) - read - written, read, written, 0, usage.get("output_tokens", 0)))
                run = "closed"
        elif entry.get("type") == "response_item":
            key = (kind, item.get("call_id") or item.get("id"))
            if key[1]:
                if key in seen:
                    continue
                seen.add(key)
            by_model = kind == "reasoning" or kind.endswith("_call") or (kind == "message" and item.get("role") == "assistant")
            if not by_model:
                if run == "output" and kind != "agent_message":
                    run = "answered"
                continue
            if run == "answered":
                close()
            run = "output"
            if kind.endswith("_call") and kind not in ("web_search_call", "image_generation_call"):
                count["tool calls"] += 1
    close()


def opencode(path, count):
    for export in objects(path):
        for message in export["messages"]:
            info, parts = message["info"], message["parts"]
            if info["role"] == "user":
                continue
            finishes = [p for p in parts if p["type"] == "step-finish"]
            content = [p for p in parts if p["type"] in ("text", "reasoning", "tool")]
            for billed in finishes if len(finishes) > 1 else [info]:
                tokens = obj(billed.get("tokens"))
                cache = obj(tokens.get("cache"))
                input, output, reasoning = (tokens.get(k, 0) for k in ("input", "output", "reasoning"))
                read, written = cache.get("read", 0), cache.get("write", 0)
                if tokens.get("total", 0) != input + read + written + output or not tokens.get("total"):
                    output += reasoning
                usage = (input, read, written, 0, output)
                if any(usage) or content:
                    count.request(usage)
            count["tool calls"] += sum(p["type"] == "tool" for p in parts)
            count["compactions"] += bool(info.get("summary"))


def gemini_cli(path, count):
    for chat in objects(path):
        for message in chat["messages"]:
            # Cancelled calls stand in a message of their own, which nobody was asked for.
            if message["type"] == "gemini" and not message.get("tokens") and not message.get("content"):
                count["tool calls"] += len(message.get("toolCalls", []))
            elif message["type"] == "gemini":
                tokens = obj(message.get("tokens"))
                input = tokens.get("input", 0) + tokens.get("tool", 0)
                read = tokens.get("cached", 0)
                count.request((input - read, read, 0, 0, tokens.get("output", 0) + tokens.get("thoughts", 0)))
                count["tool calls"] += len(message.get("toolCalls", []))


def pi(path, count):
    for entry in objects(path):
        count["compactions"] += entry["type"] == "compaction"
        message = obj(entry.get("message"))
        if entry["type"] == "message" and message.get("role") == "assistant":
            u = obj(message.get("usage"))
            hour = u.get("cacheWrite1h", 0)
            usage = (u.get("input", 0), u.get("cacheRead", 0), u.get("cacheWrite", 0) - hour, hour, u.get("output", 0))
            if any(usage) or message.get("content"):
                count.request(usage)
            count["tool calls"] += sum(b["type"] == "toolCall" for b in blocks(message.get("content")))


def swe_agent(path, count):
    for task in (attempt for task in objects(path) for attempt in task.get("attempts") or [task]):
        asked = [step for step in task["trajectory"] if any("role" in message for message in step.get("query") or [])]
        for step in asked:
            count.request()
            count["tool calls"] += bool(step["action"])
        for message in [] if asked else task["history"]:
            if message["role"] == "assistant" and not message.get("is_demo"):
                count.request()
                # Without calls of its own, the one command that it acts on.
                count["tool calls"] += len(message.get("tool_calls") or []) or bool(message.get("action"))


def mini_swe_agent(path, count):
    for task in objects(path):
        for message in task if isinstance(task, list) else task["messages"]:
            if message["role"] == "assistant":
                response = obj(obj(message.get("extra")).get("response"))
                u = obj(response.get("usage"))
                read = obj(u.get("prompt_tokens_details")).get("cached_tokens") or 0
                count.request((u.get("prompt_tokens", 0) - read, read, 0, 0, u.get("completion_tokens", 0)))
                text = message.get("content") or ""
                fences = text.count("```bash\n") + text.count("```mswea_bash_command\n")
                count["tool calls"] += len(message.get("tool_calls") or []) or fences == 1


def copilot_cli(path, count):
    for event in objects(path):
        count["compactions"] += event["type"] == "session.compaction_complete"
        if event["type"] == "assistant.message":
            count.request()
            count["tool calls"] += len(event["data"]["toolRequests"])


def crush(path, count):
    data = bytearray(path.read_bytes())
    # In memory there is no log beside it.
    data[18:20] = b"\x01\x01"
    database = sqlite3.connect(":memory:")
    database.deserialize(bytes(data))
    summaries = {row[0] for row in database.execute("select summary_message_id from sessions")}
    for id, parts in database.execute("select id, parts from messages where role = 'assistant'"):
        kinds = [part["type"] for part in json.loads(parts)]
        if id in summaries:
            count["compactions"] += 1
        elif any(kind != "finish" for kind in kinds):
            count.request()
            count["tool calls"] += kinds.count("tool_call")


def goose(path, count):
    for message in objects(path):
        if message.get("role") == "assistant":
            count.request()
            count["tool calls"] += sum(b["type"] == "toolRequest" for b in message["content"])


def aider(path, count):
    # Without an answer in any of its chats; one ends with a line of counts.
    count["requests"] = path.read_text().count("\n> Tokens:")


def kv_traces(path, count):
    def requests(holder):
        for request in holder["requests"]:
            if "requests" in request:
                requests(request)
            else:
                count.request()

    for value in objects(path):
        if "requests" in value:
            requests(value)
        else:
            count.request()


def completion(usage):
    """Usage in the dialect of OpenAI's chat completions: the prompt includes what is cached."""
    usage = obj(usage)
    details = obj(usage.get("prompt_tokens_details"))
    read = max(details.get("cached_tokens") or 0, usage.get("cache_read_input_tokens") or 0)
    written = usage.get("cache_creation_input_tokens") or 0
    prompt = usage.get("prompt_tokens") or 0
    return (prompt - read - written, read, written, 0, usage.get("completion_tokens") or 0)


def openhands(path, count):
    for value in objects(path):
        for run in value if isinstance(value, list) and "history" in obj(value[0]) else [value]:
            stated = {u["response_id"]: u for u in obj(obj(run).get("metrics")).get("token_usages", [])}
            seen = set()
            for event in run["history"] if isinstance(run, dict) else run:
                metadata = obj(obj(event).get("tool_call_metadata"))
                response = obj(metadata.get("model_response"))
                if not metadata and event.get("source") == "agent" and event.get("action") == "message":
                    count.request()
                if not response or "action" not in event:
                    continue
                count["tool calls"] += 1
                if response["id"] in seen:
                    continue
                seen.add(response["id"])
                usage = stated.get(response["id"])
                if usage:
                    read, written = usage["cache_read_tokens"], usage["cache_write_tokens"]
                    count.request((usage["prompt_tokens"] - read - written, read, written, 0, usage["completion_tokens"]))
                else:
                    count.request(completion(response.get("usage")))


def messages(usage):
    """Usage in Anthropic's dialect: what is cached comes on top."""
    life = obj(usage.get("cache_creation"))
    hour = life.get("ephemeral_1h_input_tokens", 0)
    written = usage.get("cache_creation_input_tokens") or 0
    return (usage.get("input_tokens", 0), usage.get("cache_read_input_tokens") or 0, written - hour, hour, usage.get("output_tokens", 0))


def answer(text):
    """Usage and number of tool calls of an answer, whole or in events, in any of three dialects."""
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] or [json.loads(text)]
    usage, calls, dialect = {}, set(), messages
    for event in map(obj, events):
        for part in (event, obj(event.get("message")), obj(event.get("response"))):
            usage.update({k: v for k, v in obj(part.get("usage")).items() if v is not None})
        started = [obj(event.get("content_block"))]
        for block in started + blocks(event.get("content")) + blocks(event.get("output")):
            if block.get("type") in ("tool_use", "function_call"):
                calls.add(block["id"])
        for choice in event.get("choices") or []:
            dialect = completion
            for call in obj(choice.get("delta") or choice.get("message")).get("tool_calls") or []:
                if call.get("id"):
                    calls.add(call["id"])
        if "response" in (event.get("object"), obj(event.get("response")).get("object")):
            dialect = responses
    return dialect(usage), len(calls)


def responses(usage):
    """Usage in the dialect of OpenAI's responses: the input includes what is cached."""
    read = obj(usage.get("input_tokens_details")).get("cached_tokens") or 0
    return (usage["input_tokens"] - read, read, 0, 0, usage["output_tokens"])


def raw_requests(path, count):
    if path.suffix == ".yaml":
        import yaml

        values = [yaml.safe_load(path.read_text())["interactions"]]
    else:
        values = objects(path)
    for pair in (pair for value in values for pair in (value if isinstance(value, list) else [value])):
        if "latency_sec" in pair:
            text = json.dumps(pair["response"])
        elif "scope" in pair:
            text = pair["response"] if "/chat/completions" in pair["path"] else ""
        else:
            response = obj(pair["response"])
            body = response.get("body_raw") or response.get("body") or ""
            text = body if isinstance(body, str) else json.dumps(body)
            asked = json.dumps(obj(pair["request"].get("body")).get("messages", [None])[-1]) if "body_raw" in response else ""
            count["compactions"] += "summary of the conversation" in asked
        if text:
            usage, calls = answer(text)
            count.request(usage)
            count["tool calls"] += calls


def inspect(path, count):
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as log:
            samples = [json.loads(log.read(name)) for name in log.namelist() if name.startswith("samples/")]
    else:
        samples = objects(path)[0].get("samples") or []
    for sample in samples:
        requests = [e["output"] for e in sample.get("events", []) if e["event"] == "model"]
        # Without events there is the last answer, if there is one.
        last = [sample["output"]] if obj(sample.get("output")).get("usage") else []
        for output in requests or last:
            u = obj(output.get("usage"))
            input, out = u.get("input_tokens", 0), u.get("output_tokens", 0)
            read, written = u.get("input_tokens_cache_read") or 0, u.get("input_tokens_cache_write") or 0
            # The total tells whether the input includes what is cached.
            uncached = input - read - written if u.get("total_tokens") == input + out else input
            count.request((uncached, read, written, 0, out))
            for choice in output.get("choices", [])[:1]:
                count["tool calls"] += len(choice["message"].get("tool_calls") or [])


def atif(path, count):
    for trajectory in objects(path):
        for step in trajectory["steps"]:
            count["compactions"] += step["source"] == "system" and "context summarization" in step["message"]
            if step["source"] == "agent" and not step.get("is_copied_context"):
                m = obj(step.get("metrics"))
                read = m.get("cached_tokens") or 0
                count.request(((m.get("prompt_tokens") or 0) - read, read, 0, 0, m.get("completion_tokens") or 0))
                count["tool calls"] += len(step.get("tool_calls") or [])


CALL_NAME = r"llm\.output_messages\.\d+\.message\.tool_calls\.\d+\.tool_call\.function\.name"


def otel(path, count):
    for batch in objects(path):
        for span in (span for r in batch["resourceSpans"] for scope in r["scopeSpans"] for span in scope["spans"]):
            a = {x["key"]: next(iter(x["value"].values())) for x in span["attributes"]}
            is_request = a.get("gen_ai.operation.name") == "chat" or a.get("openinference.span.kind") == "LLM"
            if is_request:
                n = lambda *names: next((int(a[name]) for name in names if name in a), 0)
                input = n("gen_ai.usage.input_tokens", "llm.token_count.prompt")
                read = n("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read")
                written = n("gen_ai.usage.cache_creation.input_tokens", "llm.token_count.prompt_details.cache_write")
                count.request((input - read - written, read, written, 0, n("gen_ai.usage.output_tokens", "llm.token_count.completion")))
                answer = json.loads(a.get("gen_ai.output.messages", "[]"))
                count["tool calls"] += sum(p.get("type") == "tool_call" for m in answer for p in m.get("parts", []))
                count["tool calls"] += sum(bool(re.fullmatch(CALL_NAME, name)) for name in a)


COUNTERS = {
    f.__name__: f
    for f in (claude_code, codex, opencode, gemini_cli, pi, swe_agent, mini_swe_agent, copilot_cli, crush, goose, kv_traces, openhands, raw_requests, inspect, atif, otel, aider)
}


def by_ctxsim(program, path):
    """The same sums of what the program says; nothing if it reads no session in the file."""
    run = subprocess.run([program, "inspect", str(path), "--format", "json"], capture_output=True)
    if run.returncode not in (0, 5):
        return None
    count = Count()
    for session in json.loads(run.stdout)["sessions"]:
        recorded = session["recorded"]
        names = ["uncached_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "output_tokens"]
        for field, name in zip(FIELDS[3:8], names):
            count[field] += recorded[name]
        count["requests"] += session["requests"]
        count["with usage"] += session["requests_with_usage"]
        count["tool calls"] += sum(tool["calls"] for tool in session["tools"])
        count["compactions"] += sum(e["event"].startswith("the agent compacted") for e in session["events"])
    return count


def main(folder, program, table=None):
    rows, differ = [], []
    for kind in sorted(p for p in pathlib.Path(folder).iterdir() if p.is_dir() and p.name in COUNTERS):
        for number, path in enumerate(sorted(p for p in kind.iterdir() if not p.name.endswith(("-wal", "-shm"))), 1):
            name = f"{kind.name} {number}"
            count = Count()
            COUNTERS[kind.name](path, count)
            said = by_ctxsim(program, path)
            # A file without a request is refused.
            equal = said == count or (said is None and not count["requests"])
            if not equal:
                differ.append(f"{name} ({path.name}): here {dict(count)}, ctxsim {said and dict(said)}")
            rows.append([name, *(f"{count[field]:,}" for field in FIELDS), "yes" if equal else "no"])
    lines = ["| " + " | ".join(row) + " |" for row in [["recording", *FIELDS, "equal"], ["---", *["--:"] * len(FIELDS), "---"], *rows]]
    text = HEAD + "\n".join(lines) + "\n"
    pathlib.Path(table).write_text(text) if table else print(text, end="")
    print("\n".join(differ) or f"{len(rows)} recordings: all equal", file=sys.stderr)
    return bool(differ)


HEAD = """# What the readers make of real recordings

Each row is a recording, counted by `tests/independent/readers.py`, which shares nothing with ctxsim and knows only the
formats. `equal`: `ctxsim inspect --format json` says the same of every column. Written by
`python3 tests/independent/readers.py FOLDER target/release/ctxsim docs/readers.md`; the recordings are not committed.
Tokens are those that the provider billed; formats without usage for each request have none.

"""

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
