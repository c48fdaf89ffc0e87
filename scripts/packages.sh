# Sourced by quickstart and test: the packages of a build, and how to get them.
# Everything comes from Debian 12 or Ubuntu 24.04; nothing from anywhere else.

build_packages="g++ cmake ninja-build pkg-config llvm-19-dev liblua5.4-dev
  libsqlite3-dev libcmark-dev libsimdjson-dev libisal-dev libzstd-dev libhwy-dev
  zlib1g-dev"
test_packages="llvm-19-tools libgtest-dev python3 sqlite3 zstd"

# install PACKAGE...: installs what is missing, as root or through sudo.
install() {
  missing=
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    { echo "culprit: needs apt-get (Debian 12 or Ubuntu 24.04); install$missing by hand" >&2; exit 2; }
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      { echo "culprit: run as root, or install sudo, to get$missing" >&2; exit 2; }
    as_root=sudo
  fi
  echo "culprit: installing$missing" >&2
  export DEBIAN_FRONTEND=noninteractive
  $as_root apt-get update -qq &&
    $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
    { echo "culprit: apt-get could not install$missing; check the package sources" >&2; exit 2; }
}
