#!/bin/sh
# Stands in for Python in tests: makes an environment out of itself, and serves
# packages from the folder `index` beside the original instead of the network.
# Everything else is done by the real Python.
index=$(cat "$(dirname "$0")/index-at")
shift # -I
case "$1 $2 $3" in
"-m venv "*)
    echo venv >>"$index/log"
    mkdir -p "$4/bin"
    cp "$0" "$4/bin/python"
    cp "$(dirname "$0")/index-at" "$4/bin/"
    ;;
"-m pip download")
    name=$(sed 's/==.*//' "$TMPDIR/../requirements.txt")
    echo "download $name" >>"$index/log"
    if [ -e "$index/fail" ]; then
        cat "$index/fail" >&2
        exit 1
    fi
    if [ -e "$index/hang" ]; then
        # The grandchild is what a kill of the direct child alone would leave.
        sleep 3600 &
        echo "$$ $!" >"$index/pids"
        wait
    fi
    head -c 1000 "$index/$name.whl" >"$TMPDIR/part"
    sleep 0.5
    rm "$TMPDIR/part"
    cp "$index/$name.whl" "$TMPDIR/../whole/$name.whl"
    ;;
"-m pip install")
    echo install >>"$index/log"
    ;;
"-c import server"*)
    echo "try" >>"$index/log"
    if [ -e "$index/broken" ]; then
        kill -ILL $$
    fi
    ;;
*)
    exec python3 -I "$@"
    ;;
esac
