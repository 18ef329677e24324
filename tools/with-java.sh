#!/bin/sh
# tools/with-java.sh COMMAND ...: runs the command with Java 17 or newer (JAVA_HOME, else PATH, else installed when
# root) and with Spark's workers on this environment's own Python.
set -eu

usable() {
    # java -version writes  openjdk version "17.0.15"  to stderr; 8 and older call themselves 1.8 and so on.
    major=$("$1" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -1)
    [ -n "$major" ] && [ "$major" -ge 17 ]
}

if [ -n "${JAVA_HOME:-}" ] && usable "$JAVA_HOME/bin/java"; then
    :
elif command -v java >/dev/null && usable java; then
    unset JAVA_HOME
else
    unset JAVA_HOME
    sh tools/need.sh "Java 17 or newer" \
        'java -version 2>&1 | grep -Eq "version \"(1[7-9]|[2-9][0-9])"' openjdk-17-jre-headless
fi
PYSPARK_PYTHON=$PWD/.venv/bin/python
PYSPARK_DRIVER_PYTHON=$PYSPARK_PYTHON
export PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
exec "$@"
