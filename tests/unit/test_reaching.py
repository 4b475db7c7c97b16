"""How the operator finds its cluster, and what it says if it cannot."""

from pathlib import Path

import kopf
import pytest

from evenkeel.cluster import api


@pytest.mark.parametrize("text", [None, "{", "current-context: nowhere\ncontexts: []"])
def test_a_kubeconfig_that_cannot_be_used_is_told_in_a_sentence(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "config"
    if text is not None:
        place.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(place))
    with pytest.raises(api.NoClusterError, match="the kubeconfig cannot be used: "):
        api.connection(kopf.OperatorSettings())
