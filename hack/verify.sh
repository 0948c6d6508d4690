#!/usr/bin/env bash
# Fails when something that is derived is not up to date, or when lint would let a forbidden import
# pass. Uncommitted changes of yours are no problem: what counts is whether anything changes.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
complain() { echo "verify: $*" >&2; failed=1; }

echo "go.mod and go.sum of every module"
for module in . hack kubernetes tools; do
  (cd "$module" && go mod tidy -diff) || complain "$module/go.mod is not tidy: run 'make tidy'"
done

echo "generated files"
snapshot() { git ls-files -co --exclude-standard -z | sort -z | xargs -0 sha256sum 2>/dev/null || true; }
before=$(snapshot)
make -s generate
if ! changes=$(diff <(echo "$before") <(snapshot)); then
  echo "$changes" | sed -n 's/^[<>] [0-9a-f]*  /  /p' | sort -u >&2
  complain "generated files were stale; 'make generate' has just written them anew: commit them"
fi

echo "lint sees imports against the rules"
probe=examples/verify-probe
trap 'rm -rf "$probe"; rmdir examples 2>/dev/null || true' EXIT
mkdir -p "$probe"
cat > "$probe/main.go" <<'GO'
// Command verify-probe imports what an example must not.
package main

import _ "github.com/ringmaster-project/ringmaster/internal/process"

func main() {}
GO
if said=$(go tool -modfile=tools/go.mod golangci-lint run "./$probe/..." 2>&1); then
  complain "lint let an example import an internal package"
elif ! grep -q "depguard" <<<"$said"; then
  complain "lint failed, but not because of the import: $said"
fi

[ "$failed" = 0 ] && echo "Everything is up to date."
exit "$failed"
