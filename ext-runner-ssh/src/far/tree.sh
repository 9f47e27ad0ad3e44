# Processes by the mark in their environment, which children inherit and a
# session of their own doesn't shed. Both scripts begin with this file.

# The pids that carry the mark $1, in `pids`.
marked() {
  pids=
  for found in $(grep -lsF -- "HAFT_RUN=$1" /proc/[0-9]*/environ 2>/dev/null); do
    found=${found#/proc/}
    pids="$pids ${found%/environ}"
  done
}

# Sends signal $1 to all that carry the mark $2, and to the group $3 if given.
signal_marked() {
  [ -z "$3" ] || kill -s "$1" -- "-$3" 2>/dev/null
  marked "$2"
  for pid in $pids; do kill -s "$1" "$pid" 2>/dev/null; done
}

# Ends all that carry the mark $1 and the group $2: politely for $3 times 20 ms,
# then at once.
end_marked() {
  signal_marked TERM "$1" "$2"
  patience=$3
  while [ "$patience" -gt 0 ]; do
    marked "$1"
    [ -n "$pids" ] || break
    sleep 0.02
    patience=$((patience - 1))
  done
  kill_marked "$1" "$2"
}

# Kills all that carry the mark $1 and the group $2, until none is left.
kill_marked() {
  rounds=100
  while signal_marked KILL "$1" "$2"; [ -n "$pids" ] && [ "$rounds" -gt 0 ]; do
    sleep 0.02
    rounds=$((rounds - 1))
  done
}
