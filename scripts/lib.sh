# Shared by ./run and ./test: saying what happens, installing what is missing, building. Sourced, not run.

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
readonly build_packages=(g++ cmake ninja-build libboost1.81-dev)

# build FOLDER PRESET TARGET [cmake options]: configures when there is no build folder yet (or options are given) and builds TARGET.
build() {
  local folder=$1 preset=$2 target=$3
  shift 3
  if [ ! -f "$folder/build.ninja" ] || [ $# -gt 0 ]; then
    cmake --preset "$preset" "$@" >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log" >&2; die "cmake failed"; }
  fi
  NINJA_STATUS='[%f/%t, %es] ' cmake --build "$folder" --target "$target" >&2 || die "the build failed"
}
