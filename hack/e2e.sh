#!/usr/bin/env bash
# Runs test/e2e on the cluster of KUBECONFIG, or on a node on this machine. The script stops a node that it has
# started, however the tests end, and keeps its logs if they fail.
set -euo pipefail
cd "$(dirname "$0")/.."

# In the background, because a shell handles signals only after a child in the foreground has ended. Tests wait for pods and
# Leases most of the time, so more of them run than there are cores.
run_tests() { $GOTEST -tags e2e -count=1 -parallel 3 -timeout 15m "$@" ./test/e2e & wait $!; }

if [ -n "${KUBECONFIG:-}" ]; then
  run_tests "$@"
  exit
fi

logs=bin/e2e-logs
stop_node() {
  code=$?
  trap - EXIT
  jobs -p | xargs -r kill 2>/dev/null || true
  if [ "$code" = 0 ]; then
    "$NODE" down --dir "$NODE_DIR" || code=1
  else
    rm -rf "$logs"
    "$NODE" down --dir "$NODE_DIR" --logs "$logs" || true
  fi
  exit "$code"
}
if ! "$NODE" status --dir "$NODE_DIR" -o pid >/dev/null 2>&1; then
  trap stop_node EXIT
  trap 'exit 130' INT TERM
fi
"$NODE" up --dir "$NODE_DIR" --images bin/images
E2E_ON_NODE=1 run_tests -exec "'$NODE' exec --dir '$NODE_DIR' --" "$@"
