# Shared by ./run, ./test and scripts/tidy: saying what happens, installing what is missing, building. Sourced, not run.

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'erne: %s\n' "$*" >&2; exit 1; }

# As root, or through sudo. Asks for a password only where sudo itself does.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else die "need root (or sudo) to run: $*"
  fi
}

# need_packages NAME...: installs those Debian packages that are missing; does nothing, and needs no rights, when all are there.
need_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null 2>&1; then
    say "not a Debian system: assuming that these are installed: $*"
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing Debian packages: ${missing[*]}"
  as_root apt-get update -qq >&2 || die "apt-get update failed: no network, or no package sources?"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
    die "could not install: ${missing[*]}"
}

# What the program itself needs to be built.
readonly build_packages=(g++ cmake ninja-build libboost1.81-dev prometheus-cpp-dev)

# with_lock FOLDER COMMAND...: runs COMMAND while no other ./run or ./test works in that build folder.
with_lock() {
  local folder=$1 lock status=0
  shift
  mkdir -p "$(dirname "$folder")"
  exec {lock}>"$folder.lock"
  if command -v flock >/dev/null 2>&1 && ! flock --nonblock "$lock"; then
    say "waiting for another build in $folder"
    flock "$lock"
  fi
  "$@" || status=$?
  exec {lock}>&-
  return "$status"
}

# build FOLDER PRESET TARGET [--tests]: builds TARGET. Configures where there is no build folder yet, with the tests when
# --tests is given, and where --tests is given and the folder was configured without.
build() { with_lock "$1" build_unlocked "$@"; }

# configure FOLDER PRESET [--tests]: the first half of build.
configure() { with_lock "$1" configure_unlocked "$@"; }

build_unlocked() {
  local folder=$1 preset=$2 target=$3
  configure_unlocked "$folder" "$preset" "${@:4}"
  NINJA_STATUS='[%f/%t, %es] ' cmake --build "$folder" --target "$target" >&2 || die "the build failed"
}

configure_unlocked() {
  local folder=$1 preset=$2 tests=OFF
  [ "${3:-}" = --tests ] && tests=ON
  if [ -f "$folder/build.ninja" ]; then
    [ "$tests" = ON ] && grep -qs '^ERNE_TESTS:BOOL=OFF$' "$folder/CMakeCache.txt" || return 0
  fi
  cmake --preset "$preset" "-DERNE_TESTS=$tests" >"$folder.configure.log" 2>&1 ||
    { cat "$folder.configure.log" >&2; die "cmake failed"; }
}
