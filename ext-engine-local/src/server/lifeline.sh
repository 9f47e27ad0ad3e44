# Runs a program until standard input ends, and ends with the program's status.
# Standard input is a lifeline: it ends when whoever started this is gone, in
# whatever way that happened; then the program is killed.
exec 3<&0 </dev/null
"$@" 3<&- &
program=$!
(
    cat <&3 >/dev/null
    kill -KILL "$program"
) 2>/dev/null &
watcher=$!
exec 3<&-
wait "$program"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
