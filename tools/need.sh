#!/bin/sh
# tools/need.sh WHAT TEST PACKAGE: makes sure that the shell command TEST succeeds, by installing the system package
# PACKAGE when we are root, else by saying what to install.
set -eu
what=$1 test=$2 package=$3

if sh -c "$test" >/dev/null 2>&1; then exit 0; fi

if command -v apt-get >/dev/null; then
    install="apt-get install -y --no-install-recommends $package" refresh="apt-get update -q"
elif command -v dnf >/dev/null; then
    case $package in
    openjdk-17-jre-headless) package=java-17-openjdk-headless ;;
    python3-venv) package=python3 ;;
    python3-dev) package=python3-devel ;;
    esac
    install="dnf install -y $package" refresh=true
elif command -v brew >/dev/null; then
    case $package in
    openjdk-17-jre-headless) package=openjdk@17 ;;
    python3-venv | python3-dev) package=python@3.13 ;;
    esac
    echo "hdfsstore needs $what: run  brew install $package  and then make again." >&2
    exit 1
else
    echo "hdfsstore needs $what: install it with this machine's package manager and run make again." >&2
    exit 1
fi

if [ "$(id -u)" != 0 ]; then
    echo "hdfsstore needs $what: run  sudo $install  and then make again." >&2
    exit 1
fi
echo "Installing $what ($package) ..."
$refresh >/dev/null
DEBIAN_FRONTEND=noninteractive $install >/dev/null
sh -c "$test" >/dev/null || { echo "$package is installed, but $what is still missing." >&2; exit 1; }
