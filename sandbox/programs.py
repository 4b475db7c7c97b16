"""Describes how to build command-line tools for Kubernetes, such as helm and kubectl."""

from sandbox import go, kubernetes

HELM = go.GoProgram("helm", "helm.sh/helm/v4", "v4.3.1", "cmd/helm")
KUBECTL = kubernetes.make_program("kubectl")
KUBECONFORM = go.GoProgram(
    "kubeconform", "github.com/yannh/kubeconform", "v0.8.0", "cmd/kubeconform"
)
ALL = (HELM, KUBECTL, KUBECONFORM)
