#!/usr/bin/env bash
# From nothing to a run that outlives a `kill -9`: an empty folder, a clean environment, the wheel,
# the README's lines, and one refund for each order at the end. Only Claude is scripted.
#
#     tests/from_nothing.sh "$(mktemp -d)"
#
# Needs python3 and uv. Leaves everything in that folder, and no process.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
export UV_PYTHON_DOWNLOADS=never

say() { echo "== $*"; }

# wait_for FILE TEXT: until the file has it.
wait_for() {
  local deadline=$((SECONDS + 60))
  until grep -qs -- "$2" "$1"; do
    ((SECONDS < deadline)) || { say "no '$2' in $1"; tail -c 2000 "$1"; exit 1; }
    sleep 0.05
  done
}

say "the wheel, in a clean environment"
uv=uv
"$uv" --version >/dev/null 2>&1 || uv=$checkout/.venv/bin/uv
"$uv" build --quiet --wheel --out-dir dist "$checkout"
"$uv" venv --quiet --python python3 .venv
# The versions that all other tests have, as constraints: what is needed, the wheel must say.
"$uv" pip install --quiet --python .venv/bin/python --constraint "$checkout/requirements.lock" \
  "$(echo dist/*.whl)[local]"
export PATH=$PWD/.venv/bin:$PATH
unset PYTHONPATH VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

say "Claude's side, scripted: twenty refunds, and a long thought before the eighth"
python - > scripts.json <<'PY'
import json
refunds = [{"type": "tool_use", "name": "refund", "input": {"order_id": f"A-{n}", "cents": 500}}
           for n in range(1, 21)]
steps = [{"content": [refund]} for refund in refunds]
steps[7]["delay_s"] = 2
print(json.dumps({"default": [*steps, {"content": [{"type": "text", "text": "All refunded."}]}]}))
PY
python -m onward.testing.messages_api --scripts scripts.json --journal journal.jsonl > claude.log &
wait_for claude.log '"url"'
ANTHROPIC_BASE_URL=$(python -c 'import json; print(json.load(open("claude.log"))["url"])')
export ANTHROPIC_BASE_URL ANTHROPIC_API_KEY=scripted ONWARD_APP=refunds:app

say "the README's lines"
awk '/^```python/ {on = 1; next} /^```/ && on {exit} on' "$checkout/README.md" > refunds.py
onward-worker --local > worker-1.log 2>&1 &
worker=$!
wait_for worker-1.log polling
onward start "Refund 5 euros each of the orders A-1 to A-20, one by one." \
  --agent refunds --id batch-1 --wait > answer.txt &
starting=$!

say "kill -9 of the worker in the eighth request, and the same worker again"
wait_for journal.jsonl '"step": 7,'
kill -9 "$worker"
wait "$worker" 2>/dev/null || true
onward-worker --local > worker-2.log 2>&1 &
wait "$starting"

say "the result, and one refund for each order"
grep "All refunded." answer.txt
python - <<'PY'
import sqlite3
orders = [order for (order,) in sqlite3.connect("refunds.db").execute("SELECT order_id FROM refunds")]
assert sorted(orders) == sorted(f"A-{n}" for n in range(1, 21)), orders
PY
onward audit batch-1 | tail -n 1
