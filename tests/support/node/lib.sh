# SPDX-License-Identifier: Apache-2.0
# Shared settings of the single-node cluster scripts (sourced by bash).
# K8S_CACHE  binaries and Go build output are kept here between runs
# K8S_RUN    state of one running cluster (sockets, certificates, logs, pids)
: "${K8S_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/proflet/node}"
: "${K8S_VERSION:=v1.36.3}"            # k8s.io/kubernetes
: "${K8S_CNI:=v1.9.1}"                 # github.com/containernetworking/plugins
: "${K8S_CGROUP_DRIVER:=cgroupfs}"
: "${K8S_NODE:=node1}"
: "${K8S_NODE_NET:=10.99.0}"           # /24: .1 = node (in its own netns), .254 = host end of the veth
: "${K8S_POD_NET:=10.244.0}"           # /24
: "${K8S_SVC_NET:=10.96.0}"            # /24: .1 = kubernetes.default
BIN=$K8S_CACHE/bin-$K8S_VERSION

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

run_dir() { # finds the state directory of the running cluster
  if [ -z "${K8S_RUN:-}" ] && [ -L "$K8S_CACHE/current" ]; then K8S_RUN=$(readlink "$K8S_CACHE/current"); fi
  [ -n "${K8S_RUN:-}" ] && [ -d "$K8S_RUN" ] || die "no cluster state: set K8S_RUN"
}

in_node() { # runs a command in the node's mount and network namespaces
  nsenter --target "$(cat "$K8S_RUN/pid/holder")" --mount --net -- "$@"
}
