#!/bin/sh
# Hold a lock of a fencelock service while a command runs, in plain shell and curl.
#
#   FENCELOCK_SERVICE=https://locks.internal FENCELOCK_TOKEN=… ./lock.sh NAME COMMAND [WORD...]
#
# The command finds the fence in FENCE, and hands it to whatever it writes to. If the lock is lost,
# or is not renewed in time, the command gets SIGTERM and the exit code is 70.
set -eu
service=${FENCELOCK_SERVICE:-http://127.0.0.1:7420} name=$1 ttl=30 margin=7
shift
id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # 128 random bits: a repeated call is the same one

call() { # call VERB SECONDS JSON prints the answer, and fails unless it is 2xx
    printf 'header = "Authorization: Bearer %s"\n' "${FENCELOCK_TOKEN:-}" |
        curl -sS --fail-with-body --max-time "$2" -K - \
            -H 'Content-Type: application/json' -d "$3" "$service/v1/$1"
}
number() { printf '%s' "$1" | sed -n "s/.*\"$2\":\([0-9.]*\).*/\1/p"; }
now() { date +%s; }

sent=$(now)
until lease=$(call acquire 60 "{\"name\":\"$name\",\"id\":\"$id\",\"ttl\":$ttl,\"wait\":50}"); do
    case $lease in *'"retry":false'*) echo "$lease" >&2 && exit 77 ;; esac
    sleep 1 # busy, or no answer: the same id is the same attempt
    sent=$(now)
done
FENCE=$(number "$lease" fence) waited=$(number "$lease" waited)
export FENCE
held="{\"leases\":[{\"name\":\"$name\",\"id\":\"$id\",\"fence\":$FENCE,\"ttl\":$ttl}]}"
until=$((sent + ${waited%.*} + ttl - margin)) # on our own clock, from before the call was sent
next=$(($(now) + ttl / 3))

"$@" &
command=$!
trap 'kill "$command" 2>/dev/null || true' INT TERM
while kill -0 "$command" 2>/dev/null; do
    sleep 1
    [ "$(now)" -ge "$next" ] || continue
    sent=$(now)
    case $(call renew 5 "$held" || true) in
    *'"held":true'*) until=$((sent + ttl - margin)) next=$((sent + ttl / 3)) ;;
    *'"held":false'*) until=0 ;;
    esac
    if [ "$(now)" -ge "$until" ]; then
        kill "$command" 2>/dev/null || true
        echo "the lock $name is lost" >&2
        exit 70
    fi
done
code=0
wait "$command" || code=$?
call release 10 "$held" >/dev/null || true # else it ends with its ttl
exit "$code"
