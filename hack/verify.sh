#!/usr/bin/env bash
# Fails if a generated file is stale, or if lint does not report a forbidden import. The working tree may have
# uncommitted changes: the script fails if 'make generate' changes something.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
failed=0
complain() { echo "verify: $*" >&2; failed=1; }

echo "go.mod and go.sum of every module"
for module in . cmd/ringmaster demo examples examples/natscluster experiment hack kubernetes tools; do
  (cd "$module" && go mod tidy -diff) || complain "$module/go.mod is not tidy: run 'make tidy'"
done

echo "generated files and the exported API"
snapshot() { git ls-files -co --exclude-standard -z | sort -z | xargs -0 sha256sum 2>/dev/null || true; }
before=$(snapshot)
make -s generate || complain "'make generate' failed: see above"
if ! changes=$(diff <(echo "$before") <(snapshot)); then
  echo "$changes" | sed -n 's/^[<>] [0-9a-f]*  /  /p' | sort -u >&2
  complain "generated files were stale; 'make generate' has updated them: commit them"
fi

echo "tests that documents name, and their links"
go -C hack run ./testnames -C .. 'docs/*.md' 'docs/*/*.md' 'docs/*/*/*.md' '*.md' 'examples/*/README.md' ||
  complain "a document names a test that does not exist, has a promise without one, or has a broken link"
echo "the command line builds for each operating system"
for system in linux darwin windows; do
  GOOS=$system go -C cmd/ringmaster build -o /dev/null . || complain "cmd/ringmaster does not build for $system"
done

echo "lint reports forbidden imports"
ours=github.com/ringmaster-project/ringmaster
probes=()
trap 'rm -rf "${probes[@]}" pkg/verifyprobe examples/verifyprobe demo/verifyprobe; rmdir examples pkg 2>/dev/null || true' EXIT
# A probe is a folder and an import that is forbidden there.
probe() {
  local file="$1/verify_probe_${#expected[@]}.go"
  mkdir -p "$1"
  probes+=("$file")
  printf 'package %s\n\nimport _ "%s"\n' "$(package_of "$1")" "$2" >"$file"
  expected+=("$file")
}
package_of() {
  local first
  first=$(find "$1" -maxdepth 1 -name '*.go' ! -name '*_test.go' ! -name 'verify_probe_*' | head -n 1)
  if [ -n "$first" ]; then sed -n 's/^package //p' "$first" | head -n 1; else basename "$1" | tr -d '-'; fi
}
lint() {
  (cd "$1" && go tool -modfile="$root/tools/go.mod" golangci-lint run --config "$root/.golangci.yaml" --enable-only depguard --allow-parallel-runners \
    --output.text.path=stdout --output.text.colors=false --output.text.print-issued-lines=false ./... 2>&1 || true)
}
expected=()
# First, because the demo imports packages in which other probes import modules that the demo does not require.
probe demo/verifyprobe "$ours/examples"
output=$(lint demo)
rm -rf demo/verifyprobe
probe api/sharding/v1alpha1 "$ours/internal/process"
probe internal/ring k8s.io/client-go/rest
probe internal/membership net/http
probe internal/assignment "$ours/internal/pki"
probe internal/sharder "$ours/internal/controlplane"
probe cmd/sharder "$ours/internal/rig"
probe internal/faultproxy "$ours/cmd/sharder/app"
probe test/sharder "$ours/cmd/sharder/app"
probe pkg/verifyprobe "$ours/internal/rig"
probe internal/sharder/inprocess sigs.k8s.io/controller-runtime
probe internal/ring io/ioutil
probe examples/verifyprobe "$ours/internal/process"
output+=$'\n'$(lint .; lint examples)
for file in "${expected[@]}"; do
  grep -q "^$file:.*(depguard)" <<<"$output" || complain "lint does not report the import in $file: $(sed -n 's/^import _ //p' "$file")"
done
rm -rf "${probes[@]}" pkg/verifyprobe examples/verifyprobe demo/verifyprobe

[ "$failed" = 0 ] && echo "Everything is up to date."
exit "$failed"
