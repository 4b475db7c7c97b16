"""The programs that people use with Kubernetes, built from their modules: helm, kubectl."""

from sandbox import go, kubernetes

HELM = go.Program("helm", "helm.sh/helm/v4", "v4.3.1", "cmd/helm")
KUBECTL = kubernetes.of_kubernetes("kubectl")
KUBECONFORM = go.Program("kubeconform", "github.com/yannh/kubeconform", "v0.8.0", "cmd/kubeconform")
ALL = (HELM, KUBECTL, KUBECONFORM)
