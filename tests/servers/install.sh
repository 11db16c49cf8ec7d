#!/bin/sh
# Installs the servers that the tests start, from Debian packages, where they are not there already.
#
# As root or with a sudo that asks for no password; otherwise it says what to install and fails. The
# packages' own services are kept from starting: the tests start their own. MySQL, Consul and
# Hazelcast, which Debian's stable releases do not have, are fetched into the user's cache; without
# one its tests are skipped. So are the clients in Go and Java that the tests contend with.
set -eu

"${PYTHON:-python3}" "$(dirname "$0")/mysql_program.py"
"${PYTHON:-python3}" "$(dirname "$0")/npm_programs.py"
(
    cd "$(dirname "$0")/../.."
    for each in consul_program hazelcast_program go_programs maven_programs; do
        "${PYTHON:-python3}" -m "tests.servers.$each"
    done
)

wanted="$(dirname "$0")/packages.txt"

have() {
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$1" >/dev/null 2>&1 && return 0
    [ -e "/usr/share/java/$1" ] && return 0
    for found in /usr/lib/postgresql/*/bin/"$1"; do [ -x "$found" ] && return 0; done
    return 1
}

missing=""
while read -r program package; do
    case "$program" in "" | "#"*) continue ;; esac
    have "$program" || missing="$missing $package"
done <"$wanted"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests need these servers, by the names of their Debian packages:$missing" >&2
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "The tests need servers that are not installed. Run:" >&2
    echo "    sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

echo "Installing servers for the tests:$missing"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod 755 "$policy"
    trap '$as_root rm -f "$policy"' EXIT INT TERM
fi
log="$(mktemp)"
if ! { $as_root apt-get update --quiet &&
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install --quiet --yes --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "apt-get could not install:$missing" >&2
    exit 1
fi
rm -f "$log"
