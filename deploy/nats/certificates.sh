#!/bin/sh
# An authority of one's own and a certificate for the nats-servers, for who has no other:
#   sh certificates.sh <folder> <name>...      e.g. sh nats/certificates.sh tls nats-1 nats-2 nats-3
# Names are those by which processes and the other servers reach them, or addresses. In the folder are then
#   ca.crt   for every process (--nats-ca) and server
#   tls.crt, tls.key   for the servers
#   authority.key   signs new certificates; nobody else needs it, and it belongs somewhere else
# Valid for a year. Running it again with the same folder renews tls.crt and tls.key under the same authority;
# servers read them again on SIGHUP.
set -eu
umask 077
folder=$1
shift
mkdir -p "$folder"
cd "$folder"
names=
for name in "$@"; do
  case $name in
    *[!0-9.]*) names="$names,DNS:$name" ;;
    *) names="$names,IP:$name" ;;
  esac
done
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
# $key is several words.
# shellcheck disable=SC2086
[ -f authority.key ] || openssl req -x509 $key -keyout authority.key -out ca.crt -subj "/CN=agents nats" -days 3650
# Servers are each other's clients, too.
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "${names#,}" >extensions
# shellcheck disable=SC2086
openssl req $key -keyout tls.key -out request -subj "/CN=nats"
openssl x509 -req -in request -CA ca.crt -CAkey authority.key -CAcreateserial -out tls.crt -days 365 -extfile extensions
rm -f request extensions
chmod 644 ca.crt tls.crt
