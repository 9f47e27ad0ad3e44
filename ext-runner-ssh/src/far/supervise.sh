# Looks after one command until it has ended, whether or not anybody is
# connected. Runs as a session of its own.
# $1 folder, $2 time limit (ms, 0 is none), $3 grace (steps of 20 ms),
# $4 whether leftovers may live on, $5 most bytes of a channel, $6 mark,
# $7 how long nobody may ask about it (ms, 0 is for ever)
P=$1 limit_ms=$2 grace=$3 detach=$4 most=$5 mark=$6 abandon_ms=$7
done= cause=- job= child= alone_ms=0

# A shell tells "exited with 137" from "killed by 9" in its list of jobs only.
# The command is its second job. Looked at once: a finished job is told of once.
seen() {
  [ -z "$done" ] || return 0
  jobs %2 >"$P/job" 2>/dev/null
  job=
  IFS= read -r job <"$P/job"
  case $job in *Running*) return 0 ;; esac
  done=1
  kill "$timer" 2>/dev/null
}

stop() {
  [ "$cause" != - ] || cause=$1
  end_marked "$mark" "$child" "$grace"
}

nap() {
  slice=1000
  if [ "$limit_ms" -gt 0 ] && [ "$left_ms" -lt 1000 ]; then slice=$left_ms; fi
  fraction=$((1000 + slice % 1000))
  sleep "$((slice / 1000)).${fraction#1}" &
  timer=$!
}

trap '' HUP INT QUIT PIPE
stdin=/dev/null
if [ -p "$P/in" ]; then
  # Read and write: neither end of the pipe waits for the other.
  exec 7<>"$P/in"
  stdin=$P/in
fi
left_ms=$limit_ms
nap
trap 'exec 7>&-' USR1
trap 'stop cancelled' TERM
trap seen CHLD
(
  trap - HUP PIPE
  if [ -n "$HAFT_LC" ]; then export LC_ALL="$HAFT_LC"; else unset LC_ALL; fi
  defaults=$HAFT_DEFAULTS
  unset HAFT_LC HAFT_DEFAULTS
  export HAFT_RUN="$mark"
  . "$P/spec"
  exec setsid $defaults "$@" <"$stdin" >>"$P/out" 2>>"$P/err" 7>&-
) &
child=$!
echo "$child" >"$P/child"
echo "$$" >"$P/pid.new"
mv "$P/pid.new" "$P/pid"

while [ -z "$done" ]; do
  wait "$timer"
  [ -z "$done" ] || break
  if kill -0 "$timer" 2>/dev/null; then continue; fi
  if [ "$limit_ms" -gt 0 ]; then
    left_ms=$((left_ms - slice))
    if [ "$left_ms" -le 0 ]; then
      stop timeout
      left_ms=1000
    fi
  fi
  if [ "$abandon_ms" -gt 0 ]; then
    alone_ms=$((alone_ms + slice))
    if [ "$alone_ms" -ge "$abandon_ms" ]; then
      # Whoever asks about it leaves this file.
      if [ -e "$P/seen" ]; then rm -f "$P/seen"; else stop abandoned; fi
      alone_ms=0
    fi
  fi
  for channel in out err; do
    size=$(wc -c <"$P/$channel")
    if [ "$size" -gt "$most" ]; then stop output; fi
  done
  [ -n "$done" ] || nap
done
trap '' TERM USR1 CHLD
wait "$child"
code=$?
marked "$mark"
left=$pids
if [ "$detach" = 0 ] && [ -n "$left" ]; then kill_marked "$mark" ""; fi
rm -f "$P/in" "$P/spec"
sent=
[ ! -f "$P/sent" ] || sent=$(tr '\n' ' ' <"$P/sent")
{
  echo "$cause $code $(wc -c <"$P/out") $(wc -c <"$P/err")"
  echo "$job"
  echo "$sent"
  echo "$left"
} >"$P/exit.new"
mv "$P/exit.new" "$P/exit"
