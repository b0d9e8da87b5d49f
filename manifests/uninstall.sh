#!/usr/bin/env bash
# Removes Kohort from the cluster of the current kubectl context, and removes its scheduling gate from every pod:
#   manifests/uninstall.sh [FOLDER]      FOLDER: what was applied with `kubectl apply -k` (default: manifests/base)
# Running pods go on. Waiting pods lose their gate and stay Pending: a pod's schedulerName cannot be changed, so the
# jobs that are listed at the end must be submitted anew for another scheduler. Each step may be repeated.
# Where the cluster's own kube-scheduler calls Kohort, first remove the extender from its configuration and restart it,
# then set EXTENDER_REMOVED=yes: it calls Kohort about every pod, and binds none without an answer.
set -euo pipefail
folder=${1:-$(dirname "${BASH_SOURCE[0]}")/base}
gate=kohort.dev/admission
mark=kohort.dev/released
# Kinds that can be suspended, each with the merge patch that lets a job go on.
kinds='tfjobs.kubeflow.org {"runPolicy":{"suspend":false}}
pytorchjobs.kubeflow.org {"runPolicy":{"suspend":false}}
mpijobs.kubeflow.org {"runPolicy":{"suspend":false}}
jobs.batch {"suspend":false}
jobsets.jobset.x-k8s.io {"suspend":false}'

step() { printf '== %s\n' "$*"; }

asked=$(kubectl -n kohort-system get service kohort-extender --ignore-not-found -o name)
if [ -n "$asked" ] && [ "${EXTENDER_REMOVED:-}" != yes ]; then
  echo "error: the cluster's own kube-scheduler may be asking Kohort ($asked), and would bind no pod of any kind without it." >&2
  echo "Take the extender and the profile kohort out of its configuration, restart it, then run this again with" >&2
  echo "EXTENDER_REMOVED=yes" >&2
  exit 1
fi
served=$(kubectl api-resources -o name --verbs=patch)

# Prints "namespace name index" of each pod with Kohort's gate; index: the gate's place in the pod's list of gates.
gated() {
  kubectl get pods -A --field-selector=status.phase=Pending -o go-template='
{{- range .items}}{{$pod := .metadata}}{{range $index, $held := .spec.schedulingGates}}{{if eq $held.name "'"$gate"'"}}
{{- $pod.namespace}} {{$pod.name}} {{$index}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# Prints "namespace name" of each job of a kind that Kohort has suspended until its pods are gone.
released() {
  kubectl get "$1" -A -o go-template='
{{- range .items}}{{if .metadata.annotations}}{{if index .metadata.annotations "'"$mark"'"}}
{{- .metadata.namespace}} {{.metadata.name}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# The parameters of the admission policies are deleted first, and the API servers get time to see that. When the last
# binding is deleted, API servers keep the parameters that they have read until they are restarted
# (kubernetes/kubernetes#130887), and would use them if Kohort were installed again.
step "new pods are not gated any more"
kubectl -n kohort-system delete configmap kohort-gate --ignore-not-found
sleep 3
binding=mutatingadmissionpolicybindings.admissionregistration.k8s.io # from Kubernetes 1.36 on
if grep -qx "$binding" <<<"$served"; then
  kubectl delete "$binding" kohort-gate --ignore-not-found
fi

step "Kohort stops: nothing is bound, resized or suspended any more"
kubectl -n kohort-system delete deployment kohort --ignore-not-found --cascade=foreground --timeout=120s
kubectl -n kohort-system delete lease kohort-scheduler kohort-extender --ignore-not-found
sleep 3

step "jobs that Kohort has suspended go on"
while read -r kind spec; do
  grep -qx "$kind" <<<"$served" || continue
  released "$kind" | while read -r namespace name; do
    kubectl -n "$namespace" patch "$kind" "$name" --type merge \
      -p '{"metadata":{"annotations":{"'"$mark"'":null}},"spec":'"$spec"'}'
  done
done <<<"$kinds"

step "gated pods are let go"
# Every API server caches an admission policy for a moment, so look again until no pod is left.
for _ in 1 2 3 4 5 6; do
  left=$(gated)
  [ -n "$left" ] || break
  while read -r namespace name index; do
    kubectl -n "$namespace" patch pod "$name" --type json -p '[
      {"op": "test", "path": "/spec/schedulingGates/'"$index"'/name", "value": "'"$gate"'"},
      {"op": "remove", "path": "/spec/schedulingGates/'"$index"'"}]' || true # the pod is deleted or has changed: look again
  done <<<"$left"
  sleep 2
done
if [ -n "$(gated)" ]; then
  echo "error: these pods are still gated; run this again:" >&2
  gated >&2
  exit 1
fi

step "everything else of Kohort is deleted"
kubectl delete -k "$folder" --ignore-not-found --timeout=120s
for by in kohort kohort.dev/controller; do
  kubectl delete events -A --field-selector="reportingComponent=$by" >/dev/null
done

step "pods that no scheduler looks at now (submit their jobs anew for another one)"
kubectl get pods -A --field-selector=spec.schedulerName=kohort,status.phase=Pending
