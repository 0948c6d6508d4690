#!/usr/bin/env bash
# Measures what documents quote, into docs/results, and fills their blocks. 'make results' runs it: less than an hour on 2 idle
# cores.
#
# Usage: hack/results.sh [REPORT…]   (default: all)
#
# Each report is written, and quoted, as soon as it is measured. A run that fails or is invalid leaves its earlier report as it is,
# and the others are measured nevertheless. After that, and after Ctrl-C, the script fails with the command that measures the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A minutes=([capacity]=35 [setups]=8 [size]=6 [rolling-update]=2 [rebalance]=3 [reconnect]=2 [chaos]=3)
arguments() {
  case $1 in
  # A reconciler that waits half a second, and a load that grows from below the capacity to above it: an instance of five workers
  # sustains 3 to 4 changes/s, and the load for each grows from 2.5 to 4.7.
  capacity) echo "scale-out --instances 1,5 --repeat 3 --work-time 500ms --objects 180 --change-every 2m --scale 0.1 --scale-per-instance --projects 50 --duration 4m30s" ;;
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

# The experiment receives Ctrl-C, too, and ends. Without a trap the script would continue with the next report.
interrupted=
trap 'interrupted=1' INT
missing=()
folder=$(mktemp -d)
for name in "${reports[@]}"; do
  if [[ $interrupted ]]; then
    missing+=("$name")
    continue
  fi
  began=$SECONDS code=0
  read -ra args <<<"$(arguments "$name")"
  bin/ringmaster-experiment "${args[@]}" --out "$folder/$name" --summary "docs/results/$name" || code=$?
  # 3: valid, but an objective does not hold, which the report shows.
  if [[ $code != 0 && $code != 3 ]]; then
    missing+=("$name")
    continue
  fi
  echo "$name took $(((SECONDS - began) / 60)) minutes and $(((SECONDS - began) % 60)) seconds."
  GOWORK=off go -C experiment run ./results ../docs || missing+=("$name")
done
echo "The full reports are in $folder."
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "Not measured: ${missing[*]}. Measure them on an idle machine: make results RESULTS='${missing[*]}'" >&2
  exit 1
fi
