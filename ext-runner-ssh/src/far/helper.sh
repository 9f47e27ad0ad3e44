# Answers requests. A request is a line: a nonce and a command of this file,
# perhaps with bytes after it. The answer is the command's output, then on a line
# of its own the nonce and the command's exit code:
# 1 failed, 3 not found, 4 denied, 5 already exists, 6 invalid, 7 busy, 8 over.
# A failed command's output is its message.
#
# W is the session's workspace, R its read roots, one a line; S its own folder.
unset CDPATH ENV BASH_ENV
HAFT_LC=${LC_ALL-}
LC_ALL=C
IFS='
 	'
export LC_ALL HAFT_LC
NL='
'
HOMEDIR=${STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/haft/runner}

die() {
  printf %s "$2"
  exit "$1"
}

# Exactly $1 bytes of standard input. A `head` that reads ahead would swallow the
# next request.
take() { head -c "$1"; }
if [ "$(printf abXY | { head -c 2 >/dev/null; cat; } 2>/dev/null)" != XY ]; then
  take() { dd ibs=1 obs=65536 count="$1" 2>/dev/null; }
fi

hello() {
  missing=
  for tool in setsid flock stat readlink mkfifo sha256sum head tail wc grep xargs sleep tr; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
  done
  [ -r /proc/self/environ ] || missing="$missing /proc"
  [ -z "$missing" ] || die 6 "$missing"
  (umask 077; mkdir -p "$HOMEDIR") || die 4 "$HOMEDIR"
  printf %s "$HOMEDIR"
}
HAFT_DEFAULTS=
# Background jobs of a shell ignore interrupts, and what they start inherits it.
if env --default-signal=INT true 2>/dev/null; then
  HAFT_DEFAULTS='env --default-signal=INT,QUIT,TERM'
fi
export HAFT_DEFAULTS

# --- Paths: walked folder by folder, so that the shell stands in the folder that
# was checked. What happens to the path afterwards doesn't lead elsewhere.

inside() {
  case $PWD/ in "$ROOT"/*) return 0 ;; esac
  [ "$ROOT" = / ] || die 4 "$PWD"
}

# Goes to the root that the absolute or relative path $1 starts from, for access
# $2. The rest of the path is in REST.
origin() {
  case $1 in
  /*) ;;
  *) REST=$1 root=$W; goto_root; return ;;
  esac
  old_ifs=$IFS
  IFS=$NL
  set -f
  roots="$W$NL$WP"
  [ "$2" != r ] || roots="$roots$NL$R"
  for root in $roots; do
    case $1 in
    "$root" | "${root%/}"/*)
      REST=${1#"${root%/}"}
      IFS=$old_ifs
      set +f
      goto_root
      return
      ;;
    esac
  done
  die 4 "$1"
}

goto_root() {
  cd -P -- "$root" 2>/dev/null || die 3 "$root"
  ROOT=$PWD
}

# Goes to the folder of path $1, for access $2 (r, w). Its last name is in N.
# $3: keep (a link at the end is meant itself) or follow. $4: make folders.
walk() {
  hops=0
  origin "$1" "$2"
  while :; do
    while :; do case $REST in /*) REST=${REST#/} ;; *) break ;; esac; done
    if [ -z "$REST" ]; then N=.; return; fi
    name=${REST%%/*}
    case $REST in */*) rest=${REST#*/} ;; *) rest= ;; esac
    while :; do case $rest in /*) rest=${rest#/} ;; *) break ;; esac; done
    case $name in
    .) REST=$rest; continue ;;
    ..)
      [ "$PWD" != "$ROOT" ] || die 4 "${ROOT%/}/../$rest"
      cd -P .. || die 1 "$PWD/.."
      inside
      REST=$rest
      continue
      ;;
    esac
    if [ -L "./$name" ]; then
      if [ -z "$rest" ] && [ "$3" = keep ]; then N=$name; return; fi
      hops=$((hops + 1))
      [ "$hops" -le 40 ] || die 6 "$1: too many links"
      target=$(readlink -- "./$name"; echo .)
      target=${target%"$NL".}
      [ -z "$rest" ] || target=$target/$rest
      case $target in
      /*) origin "$target" "$2" ;;
      *) REST=$target ;;
      esac
      continue
    fi
    if [ -z "$rest" ]; then N=$name; return; fi
    if [ ! -e "./$name" ] && [ "$4" = make ]; then
      mkdir -- "./$name" 2>/dev/null || [ -d "./$name" ] || die 4 "$PWD/$name"
    fi
    [ -d "./$name" ] || die 3 "$PWD/$name"
    cd -P -- "./$name" 2>/dev/null || die 4 "$PWD/$name"
    inside
    REST=$rest
  done
}

# Prints mode, size, time and version of $1; with $2 = -L, of what it leads to.
describe() {
  set -- "$1" $(stat $2 -c '%f %s %Y %i_%y' -- "$1" 2>/dev/null)
  [ $# -ge 5 ] || die 3 "$1"
  version=s_$5_$6
  case $2 in
  8*)
    if [ "$3" -le 1048576 ]; then
      sum=$(sha256sum 2>/dev/null <"$1") && version=h_${sum%% *}
    fi
    ;;
  esac
  printf '%s %s %s %s\n' "$2" "$3" "$4" "$version"
}

require_file() {
  if [ -d "$1" ]; then die 6 'this is a folder, not a file'; fi
  [ -f "$1" ] || die 6 'this is a device, a socket or a pipe, not a regular file'
}

# path offset limit
file_read() {
  walk "$1" r follow
  [ -e "./$N" ] || die 3 "$PWD/$N"
  require_file "./$N"
  [ -r "./$N" ] || die 4 "$PWD/$N"
  exec 3<"./$N"
  # The name may have become a link since: what counts is what was opened.
  opened=$(readlink /proc/self/fd/3)
  case $opened in "${ROOT%/}"/*) ;; *) die 4 "$opened" ;; esac
  describe /proc/self/fd/3 -L
  [ "$3" != 0 ] || exit 0
  tail -c "+$(($2 + 1))" <&3 | head -c "$3"
}

# path mode(any, new, version) version permissions parents(make) bytes
file_write() {
  spool=$S/spool.$nonce
  (umask 077; take "$6" >"$spool") || die 1 "$spool can't be written"
  trap 'rm -f -- "$spool" ${temporary:+"$temporary"}' EXIT
  last=follow
  [ "$2" != new ] || last=keep
  walk "$1" w "$last" "$5"
  [ "$N" != . ] || die 6 'the path names a folder, not a file'
  exec 9>"$HOMEDIR/write.lock"
  flock 9
  old=
  if [ -e "./$N" ] || [ -L "./$N" ]; then
    [ "$2" != new ] || die 5 'there is a file already'
    require_file "./$N"
    [ -w "./$N" ] || die 4 'the file is read-only'
    if [ "$2" = version ]; then
      now=$(describe "./$N")
      [ "${now##* }" = "$3" ] || die 7 "${now##* }"
    fi
    old=$(stat -c '%a %u:%g' -- "./$N")
  elif [ "$2" = version ]; then
    die 3 'the file that should be replaced is gone'
  fi
  name=./.haft-$nonce.tmp
  [ -z "$old$4" ] || umask 077
  [ -w . ] || die 4 "$PWD"
  set -C
  (: >"$name") 2>/dev/null || die 4 "$PWD/$name"
  set +C
  temporary=$PWD/$name
  # Into the file that was just made: one put in its place is opened by nobody else.
  cat <"$spool" >"$name" || die 1 "$PWD/$N can't be written"
  if [ -n "$old" ]; then
    owner=$(stat -c %u:%g -- "$name")
    if [ "$owner" != "${old#* }" ]; then
      chown "${old#* }" "$name" 2>/dev/null || die 4 "the file's owner ${old#* } can't be kept"
    fi
    chmod "${old% *}" "$name" || die 1 "the file's mode can't be kept"
  elif [ -n "$4" ]; then
    chmod "$4" "$name" || die 1 "the mode can't be set"
  fi
  if [ "$2" = new ]; then
    ln -- "$name" "./$N" 2>/dev/null || die 5 'there is a file already'
    rm -f -- "$name"
  else
    mv -f -- "$name" "./$N" || die 1 "$PWD/$N can't be replaced"
  fi
  temporary=
  describe "./$N"
}

file_metadata() {
  walk "$1" r keep
  [ -e "./$N" ] || [ -L "./$N" ] || die 3 "$PWD/$N"
  describe "./$N"
}

file_list() {
  walk "$1" r follow
  [ -e "./$N" ] || die 3 "$PWD/$N"
  [ -d "./$N" ] || die 3 "$PWD/$N is no folder"
  cd -P -- "./$N" 2>/dev/null && [ -r . ] || die 4 "$PWD/$N"
  inside
  # Names with line breaks come apart from the others, each ended by a zero.
  for file in ./* ./.[!.]* ./..?*; do
    case $file in *"$NL"*) continue ;; esac
    if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
  done | xargs -0 -r stat -c '%f %s %n' -- 2>/dev/null
  printf '\0'
  for file in ./*"$NL"* ./.[!.]*"$NL"* ./..?*"$NL"*; do
    if [ -e "$file" ] || [ -L "$file" ]; then
      printf '%s %s\0' "$(stat -c '%f %s' -- "$file")" "$file"
    fi
  done
}

file_remove() {
  walk "$1" w keep
  [ "$N" != . ] || die 6 "the workspace itself can't be removed"
  if [ ! -e "./$N" ] && [ ! -L "./$N" ]; then die 3 "$PWD/$N"; fi
  if [ -d "./$N" ] && [ ! -L "./$N" ]; then
    message=$(rmdir -- "./$N" 2>&1) || die 1 "$message"
  else
    message=$(rm -f -- "./$N" 2>&1) || die 4 "$message"
  fi
}

folder_make() {
  walk "$1" w follow make
  if [ -d "./$N" ]; then exit 0; fi
  if [ -e "./$N" ]; then die 5 "something that is no folder is in the way: $PWD/$N"; fi
  mkdir -- "./$N" 2>/dev/null || [ -d "./$N" ] || die 4 "$PWD/$N"
}

# --- Sessions

place() {
  cd -P -- "$W" 2>/dev/null || die 3 "$W"
  echo "$(stat -c %d.%i .) $PWD"
}

# bytes of the supervisor
session_make() {
  (umask 077; mkdir -p "$S/p" && take "$1" >"$S/supervise") || die 4 "$S"
  (place) || {
    code=$?
    rm -rf -- "$S"
    exit "$code"
  }
}

session_find() {
  [ -f "$S/supervise" ] || die 8 "$S"
  place
}

# mark grace
session_end() {
  [ -d "$S" ] || exit 0
  for pid in "$S"/p/*/pid; do
    [ -f "$pid" ] && [ ! -f "${pid%pid}exit" ] && kill -s TERM "$(cat "$pid")" 2>/dev/null
  done
  end_marked "$1" "" "$2"
  rm -rf -- "$S"
  marked "$1"
  [ -z "$pids" ] || die 1 "$pids"
}

# --- Processes. A process is a folder P.

found() { [ -d "$P" ] || die 3 'no such process'; }

# Waits until the supervisor can be told things.
ready() {
  found
  tries=0
  while [ ! -f "$P/pid" ] && [ ! -f "$P/exit" ]; do
    tries=$((tries + 1))
    [ "$tries" -le 250 ] || die 1 'the supervisor did not start'
    sleep 0.02
  done
}

# Whether the program $1 can be found.
program() {
  case $1 in
  */*)
    [ -e "$1" ] || die 3 "$1"
    [ -f "$1" ] && [ -x "$1" ] || die 4 "$1"
    return
    ;;
  esac
  there=
  old_ifs=$IFS
  IFS=:
  set -f
  for folder in $PATH; do
    file=${folder:-.}/$1
    if [ -f "$file" ] && [ -x "$file" ]; then IFS=$old_ifs; set +f; return; fi
    [ ! -f "$file" ] || there=$file
  done
  [ -z "$there" ] || die 4 "$there"
  die 3 "$1"
}

# cwd id once time-limit grace detach most mark stdin(0, 1) kick bytes abandon
process_start() {
  P=$S/p/$2
  (umask 077; take "${11}" >"$S/spec.$nonce") || die 1 "$S/spec can't be written"
  trap 'rm -f -- "$S/spec.$nonce"' EXIT
  walk "$1" r follow
  [ -d "./$N" ] || die 3 "the folder to start in, $PWD/$N"
  cd -P -- "./$N" 2>/dev/null || die 4 "$PWD/$N"
  inside
  if ! (umask 077; mkdir "$P") 2>/dev/null; then
    # The same start, asked for again after the connection was cut.
    [ "$(cat "$P/once" 2>/dev/null)" = "$3" ] && exit 0
    [ -d "$P" ] || die 8 "$S"
    die 5 'there is a process of that id'
  fi
  (umask 077; echo "$3" >"$P/once"; : >"$P/out"; : >"$P/err"; : >"$P/marks")
  mv "$S/spec.$nonce" "$P/spec"
  (. "$P/spec"; program "$1") || {
    code=$?
    rm -rf -- "$P"
    exit "$code"
  }
  [ "$9" = 0 ] || (umask 077; mkfifo "$P/in")
  : >"${10}"
  setsid /bin/sh "$S/supervise" "$P" "$4" "$5" "$6" "$7" "$8" "${12}" \
    </dev/null >/dev/null 2>&1 &
}

# Prints the pieces that were handed out, so that a reader can go on.
process_find() {
  P=$S/p/$1
  found
  cat "$P/marks"
}

# id marks-to-add (channel offset bytes)...
process_output() {
  P=$S/p/$1
  found
  [ -z "$2" ] || printf '%s\n' "$2" >>"$P/marks"
  shift 2
  while [ $# -ge 3 ]; do
    tail -c "+$(($2 + 1))" "$P/$1" | head -c "$3"
    shift 3
  done
}

# id bytes
process_input() {
  P=$S/p/$1
  ready
  [ -p "$P/in" ] || die 8 ''
  take "$2" >"$P/in" || die 8 ''
}

process_input_end() {
  P=$S/p/$1
  ready
  kill -s USR1 "$(cat "$P/pid")" 2>/dev/null
  exit 0
}

# id mark name number
process_signal() {
  P=$S/p/$1
  ready
  [ ! -f "$P/exit" ] || exit 0
  echo "$4" >>"$P/sent"
  name=$3
  # Without a way to undo it, commands here ignore interrupts.
  if [ "$name" = INT ] && [ -z "$HAFT_DEFAULTS" ]; then name=TERM; echo 15 >>"$P/sent"; fi
  signal_marked "$name" "$2" "$(cat "$P/child")"
}

# id mark grace
process_release() {
  P=$S/p/$1
  [ -d "$P" ] || exit 0
  ready
  if [ ! -f "$P/exit" ]; then
    kill -s TERM "$(cat "$P/pid")" 2>/dev/null
    tries=$(($3 + 150))
    while [ ! -f "$P/exit" ] && [ "$tries" -gt 0 ]; do
      sleep 0.02
      tries=$((tries - 1))
    done
    [ -f "$P/exit" ] || kill_marked "$2" ""
  fi
  rm -rf -- "$P"
}

# old kick id... : waits about a second for a change against the old answer.
watch() {
  old=$1 kick=$2
  shift 2
  cd -- "$HOMEDIR" || die 1 "$HOMEDIR"
  # Their supervisors see by this that somebody is there. In a shell of its own,
  # which alone ends where one was released meanwhile.
  for id; do
    [ -e "$id/seen" ] || (umask 077; : >"$id/seen") 2>/dev/null
  done
  nap=10 waited=0
  while :; do
    now= files=
    for id; do
      if [ -f "$id/exit" ]; then
        state=exit
      elif [ ! -d "$id" ]; then
        state=gone
      else
        state=runs
        if [ -f "$id/pid" ]; then
          read -r pid <"$id/pid"
          kill -0 "$pid" 2>/dev/null || [ -f "$id/exit" ] || state=lost
        fi
      fi
      now="$now$state $id$NL"
      [ "$state" = gone ] || files="$files $id/out $id/err"
    done
    [ -z "$files" ] || now="$now$(wc -c $files 2>/dev/null)$NL"
    if [ "$now" != "$old" ] || [ "$waited" -ge 1000 ] || [ -e "$kick" ]; then break; fi
    pause=$((1000 + nap))
    sleep "0.${pause#1}"
    waited=$((waited + nap + 5))
    nap=$((nap * 2))
    [ "$nap" -le 160 ] || nap=160
  done
  rm -f -- "$kick"
  printf %s "$now"
}

process_ending() {
  P=$S/p/$1
  found
  cat "$P/exit" 2>/dev/null || die 3 'no ending'
}

while IFS= read -r line; do
  nonce=${line%% *}
  (eval "${line#* }")
  printf '\n%s %s\n' "$nonce" "$?"
done
