"""`python -m generate`: writes all generated files. It must run in the root of the checkout."""

from pathlib import Path

from generate import (
    alerts,
    crds,
    dashboard,
    handover,
    pictures,
    reference,
    refusals,
    story,
    strategies,
    values,
)

ROOT = Path(__file__).parents[1]
MODULES = (
    alerts, crds, dashboard, handover, pictures, reference, refusals, story, strategies,
    values,
)  # fmt: skip

if __name__ == "__main__":
    for module in MODULES:
        module.write(ROOT)
