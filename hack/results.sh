#!/usr/bin/env bash
# Measures what documents quote, into docs/results, and fills their blocks. 'make results' runs it: about an hour on 2 idle cores.
#
# Usage: hack/results.sh [REPORT…]   (default: all)
# An invalid run leaves its earlier report as it is, and the script fails at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A minutes=([capacity]=37 [setups]=7 [size]=6 [rolling-update]=3 [rebalance]=3 [reconnect]=3 [chaos]=3)
arguments() {
  case $1 in
  # A reconciler that waits half a second, and a load that grows from below the capacity to above it.
  capacity) echo "scale-out --instances 1,5 --repeat 3 --work-time 500ms --objects 300 --change-every 3m --scale 0.1 --scale-per-instance --projects 50 --duration 4m30s" ;;
  setups) echo "basic --setups lead,in-process,external --objects 1000 --scale 0.2 --duration 90s" ;;
  size) echo "size --objects 1000,4000 --scale 0.5 --duration 90s" ;;
  rolling-update | rebalance | reconnect | chaos) echo "$1 --scale 0.1 --duration 100s" ;;
  *)
    echo "unknown report $1 (available: ${!minutes[*]})" >&2
    return 1
    ;;
  esac
}

reports=("$@")
[[ ${#reports[@]} -gt 0 ]] || reports=(setups size rolling-update rebalance reconnect chaos capacity)
all=0
for name in "${reports[@]}"; do
  arguments "$name" >/dev/null
  all=$((all + minutes[$name]))
done
echo "Measuring ${reports[*]}: about $all minutes. Nothing else should run on this machine."

failed=()
folder=$(mktemp -d)
for name in "${reports[@]}"; do
  began=$SECONDS code=0
  read -ra args <<<"$(arguments "$name")"
  # 3: valid, but an objective does not hold, which the report shows.
  bin/ringmaster-experiment "${args[@]}" --out "$folder/$name" --summary "docs/results/$name" || code=$?
  [[ $code == 0 || $code == 3 ]] || failed+=("$name")
  echo "$name took $(((SECONDS - began) / 60)) minutes and $(((SECONDS - began) % 60)) seconds."
done
go -C experiment run ./results ../docs
echo "The full reports are in $folder."
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "Not measured: ${failed[*]}. Repeat them on an idle machine: make results RESULTS='${failed[*]}'" >&2
  exit 1
fi
